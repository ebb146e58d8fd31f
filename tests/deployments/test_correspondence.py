"""Correspondences of one setting: written, read back, refused."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.deployments.correspondence import Choice, Fixed, InexpressibleError, Option, switch, whole
from simsys.deployments.deployment import deployment_of
from simsys.deployments.nesting import flat, nested
from tests.deployments.test_training_targets import scenario

CONFIG = scenario("megatron", parallelism={})
DEPLOYMENT = deployment_of(CONFIG, "1", None)


def test_an_option_is_left_out_where_the_setting_is() -> None:
    option = Option("a.b", "b-size")
    assert option.write({}, DEPLOYMENT) == {}
    assert option.write({"a.b": 4}, DEPLOYMENT) == {"b-size": 4}
    assert option.read({"b-size": 4}, CONFIG) == {"a.b": 4}
    assert option.read({}, CONFIG) == {}
    assert Option("a.b", "b-size", default=10).write({}, DEPLOYMENT) == {"b-size": 10}


def test_a_value_that_cannot_be_converted_is_refused() -> None:
    with pytest.raises(InexpressibleError, match=r"1\.5 cannot be expressed") as caught:
        Option("a.b", "b-size", whole).write({"a.b": 1.5}, DEPLOYMENT)
    assert caught.value.path == "a.b"


@pytest.mark.parametrize(("value", "options"), [(True, {"on": True}), (False, {"off": True}), ("half", {"mode": 1})])
def test_a_choice_is_read_back(value: Any, options: dict[str, Any]) -> None:
    choice = Choice("a.b", {True: {"on": True}, False: {"off": True}, "half": {"mode": 1}})
    assert choice.write({"a.b": value}, DEPLOYMENT) == options
    assert choice.read(options, CONFIG) == {"a.b": value}


def test_one_is_not_true() -> None:
    with pytest.raises(InexpressibleError, match="1 cannot be expressed; possible: true, false"):
        switch("a.b", "on", "off").write({"a.b": 1}, DEPLOYMENT)


def test_a_value_that_needs_no_option_is_usual() -> None:
    assert switch("a.b", "on", None).is_usual("a.b", False)
    assert not switch("a.b", "on", None).is_usual("a.b", True)
    assert not switch("a.b", "on", None).is_usual("a.c", False)


def test_a_fixed_setting_has_one_value() -> None:
    fixed = Fixed("training.engine", "megatron")
    assert fixed.write({"training.engine": "megatron"}, DEPLOYMENT) == {}
    assert fixed.read({}, CONFIG) == {"training.engine": "megatron"}
    with pytest.raises(InexpressibleError, match="pytorch cannot be expressed; write megatron"):
        fixed.write({"training.engine": "pytorch"}, DEPLOYMENT)


def test_nested_names() -> None:
    data = {"a": {"b": 1, "c": {"d": None}}, "e": []}
    assert flat(data) == {"a.b": 1, "a.c.d": None, "e": []}
    assert nested(flat(data)) == data
