from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from simsys.config import loader
from simsys.config.loader import (
    apply_overrides,
    deep_merge,
    override,
    parse_document,
    read_document,
    scenario_sources,
    validate,
    validate_all,
)
from simsys.errors import ConfigError, UsageError
from simsys.units import Bytes


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Hardware(Section):
    gpu: str
    nodes: int = Field(default=1, ge=1)
    memory: Bytes = 80e9


class Scenario(Section):
    name: str
    hardware: Hardware
    seed: int = 0


MANY = """\
defaults:
  hardware: {gpu: H100, nodes: 2}
scenarios:
  - name: small
    hardware: {nodes: 1}
  - name: large
    hardware: {nodes: 0}
    sed: 4
"""


def messages(error: pytest.ExceptionInfo[ConfigError]) -> list[str]:
    return [str(problem).partition("\n")[0] for problem in error.value.problems]


def test_one_scenario_is_named_after_its_file(tmp_path: Path) -> None:
    file = tmp_path / "llama.yaml"
    file.write_text("hardware: {gpu: H100}\n")
    (source,) = scenario_sources(read_document(file))
    assert source.name == "llama"
    assert validate(source, Scenario) == Scenario(name="llama", hardware=Hardware(gpu="H100"))


def test_a_given_name_is_kept() -> None:
    (source,) = scenario_sources(parse_document("name: mine\n", "x.yaml"))
    assert (source.name, source.data) == ("mine", {"name": "mine"})


def test_defaults_are_merged_into_every_scenario() -> None:
    small, large = scenario_sources(parse_document(MANY, "x.yaml"))
    assert small.data == {"name": "small", "hardware": {"gpu": "H100", "nodes": 1}}
    assert large.name == "large"


def test_scenarios_without_defaults() -> None:
    (source,) = scenario_sources(parse_document("scenarios:\n  - {name: a, seed: 1}\n", "x.yaml"))
    assert source.data == {"name": "a", "seed": 1}


def test_a_place_is_looked_for_in_the_scenario_then_in_the_defaults() -> None:
    small, _ = scenario_sources(parse_document(MANY, "x.yaml"))
    places = {path: small.locate(path) for path in [("hardware", "nodes"), ("hardware", "gpu"), ("name",), ()]}
    assert {path: mark and (mark.line, mark.column) for path, mark in places.items()} == {
        ("hardware", "nodes"): (5, 23),
        ("hardware", "gpu"): (2, 19),
        ("name",): (4, 11),
        (): (4, 5),
    }


def test_a_missing_place_is_that_of_what_surrounds_it() -> None:
    small, _ = scenario_sources(parse_document(MANY, "x.yaml"))
    mark = small.locate(("hardware", "memory", 3))
    assert mark is not None
    assert (mark.line, mark.column) == (5, 5)


def test_the_problems_of_all_scenarios_are_reported_at_once() -> None:
    text = MANY.replace("gpu: H100", "gpu: 7")
    with pytest.raises(ConfigError) as caught:
        validate_all(scenario_sources(parse_document(text, "x.yaml")), Scenario)
    assert messages(caught) == [
        "x.yaml:2:19: hardware.gpu: text is needed, not 7",
        "x.yaml:7:23: hardware.nodes: must be at least 1, not 0",
        "x.yaml:8:5: sed: unknown key 'sed', did you mean 'seed'?",
    ]


def test_validate_all_returns_every_scenario() -> None:
    text = MANY.replace("nodes: 0", "nodes: 3").replace("sed", "seed")
    scenarios = validate_all(scenario_sources(parse_document(text, "x.yaml")), Scenario)
    assert [(scenario.name, scenario.hardware.nodes) for scenario in scenarios] == [("small", 1), ("large", 3)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("scenarios: []", "x.yaml:1:1: scenarios: a list of at least one scenario ('- name: ...') is needed"),
        ("scenarios: {a: 1}", "x.yaml:1:1: scenarios: a list of at least one scenario"),
        ("defaults: {a: 1}", "x.yaml:1:1: scenarios: a list of at least one scenario"),
        ("defaults: 3\nscenarios: [{name: a}]", "x.yaml:1:11: defaults: the defaults are a mapping"),
        ("scenarios: [{name: a}]\nmodel: b", "x.yaml:2:1: model: 'model' is not allowed next to 'scenarios'; put it"),
        ("scenarios:\n  - a", "x.yaml:2:5: scenarios[0]: a scenario is a mapping"),
        ("scenarios:\n  - seed: 1", "x.yaml:2:5: scenarios[0]: missing required key 'name'"),
        ("scenarios:\n  - name: 12", "x.yaml:2:11: scenarios[0].name: a scenario's name is text"),
        ("scenarios:\n  - name: ''", "x.yaml:2:11: scenarios[0].name: a scenario's name is text"),
        (
            "scenarios:\n  - name: a\n  - name: a",
            "x.yaml:3:11: scenarios[1].name: the name 'a' is taken by a scenario on line 2",
        ),
        ("name: [a]", "x.yaml:1:7: name: a scenario's name is text"),
    ],
)
def test_bad_forms_of_a_file(text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        scenario_sources(parse_document(text, "x.yaml"))
    assert messages(caught)[0].startswith(expected)


def test_all_bad_scenarios_are_named() -> None:
    with pytest.raises(ConfigError) as caught:
        scenario_sources(parse_document("scenarios:\n  - {}\n  - 3\n  - name: ok\n  - name: ok\n", "x.yaml"))
    assert [problem.line for problem in caught.value.problems] == [2, 3, 5]


@pytest.mark.parametrize(
    ("defaults", "scenario", "merged"),
    [
        ({}, {}, {}),
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 3}}, {"a": {"x": 1, "y": 3}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": {"x": 1}}, {"a": 5}, {"a": 5}),
        ({"a": {"x": 1}}, {"a": None}, {"a": None}),
        ({"a": {"kind": "p", "rate": 1}}, {"a": {"rate": 2}}, {"a": {"kind": "p", "rate": 2}}),
        ({"a": {"kind": "p", "rate": 1}}, {"a": {"kind": "p", "n": 2}}, {"a": {"kind": "p", "rate": 1, "n": 2}}),
        ({"a": {"kind": "p", "rate": 1}}, {"a": {"kind": "q"}}, {"a": {"kind": "q"}}),
    ],
)
def test_deep_merge(defaults: dict[str, Any], scenario: dict[str, Any], merged: dict[str, Any]) -> None:
    assert deep_merge(defaults, scenario) == merged


def test_deep_merge_shares_nothing_with_its_inputs() -> None:
    defaults: dict[str, Any] = {"a": {"x": [1]}}
    scenario: dict[str, Any] = {"b": {"y": [2]}}
    merged = deep_merge(defaults, scenario)
    merged["a"]["x"].append(0)
    merged["b"]["y"].append(0)
    assert (defaults, scenario) == ({"a": {"x": [1]}}, {"b": {"y": [2]}})


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("h.nodes=4", 4),
        ("h.nodes = 4", 4),
        ("h.nodes=1e9", 1e9),
        ("h.nodes=8 req/s", "8 req/s"),
        ("h.nodes=a=b", "a=b"),
        ("h.nodes=no", "no"),
        ("h.nodes=true", True),
        ("h.nodes=[1, 2]", [1, 2]),
        ("h.nodes={a: 1}", {"a": 1}),
        ("h.nodes='4'", "4"),
        ("h.nodes=", None),
    ],
)
def test_an_override_is_a_yaml_value(assignment: str, value: object) -> None:
    data = {"h": {"gpu": "H100", "nodes": 1}}
    assert apply_overrides(data, [assignment]) == {"h": {"gpu": "H100", "nodes": value}}
    assert data["h"]["nodes"] == 1


def test_overrides_create_mappings_and_later_ones_win() -> None:
    assert apply_overrides({"a": None}, ["a.b.c=1", "a.b.c=2", "d.e=3"]) == {"a": {"b": {"c": 2}}, "d": {"e": 3}}


@pytest.mark.parametrize("bad", ["", "a", "a.b", "=3", "a..b=3", ".a=3", "a.=3"])
def test_a_bad_override_shows_an_example(bad: str) -> None:
    with pytest.raises(UsageError) as caught:
        apply_overrides({}, [bad])
    assert str(caught.value) == f"--set {bad}: write a path, '=' and a value, e.g. --set parallelism.tp_degree=4"


@pytest.mark.parametrize("bad", ["a=[1", "a={x: 1, x: 2}", "a=!!python/name:os.system x", "a=--- 1\n--- 2"])
def test_an_override_with_a_bad_value_says_why(bad: str) -> None:
    with pytest.raises(UsageError, match=r"(?s)^--set a=.*write e.g. --set parallelism.tp_degree=4") as caught:
        apply_overrides({}, [bad])
    assert not isinstance(caught.value, ConfigError)


@pytest.mark.parametrize(
    ("hardware", "assignment", "expected"),
    [
        ({"gpu": "H100"}, "gpu.price=2 $/h", {"gpu": {"extends": "H100", "price": "2 $/h"}}),
        ({"gpu": {"extends": "L4"}}, "gpu.tdp=9 W", {"gpu": {"extends": "L4", "tdp": "9 W"}}),
        ({"gpu_model": "H100"}, "gpu.tdp=9 W", {"gpu": {"extends": "H100", "tdp": "9 W"}}),
        ({"profile": "dgx-h100"}, "gpu.tdp=9 W", {"profile": "dgx-h100", "gpu": {"tdp": "9 W"}}),
        ({"profile": "dgx-h100"}, "profile.nics.count=1", {"profile": {"extends": "dgx-h100", "nics": {"count": 1}}}),
        ({"fabric": "ndr"}, "fabric.latency=1 us", {"fabric": {"extends": "ndr", "latency": "1 us"}}),
    ],
)
def test_an_override_below_a_profile_that_is_named_extends_it(
    hardware: dict[str, Any], assignment: str, expected: dict[str, Any]
) -> None:
    assert apply_overrides({"hardware": hardware}, [f"hardware.{assignment}"]) == {"hardware": expected}


@pytest.mark.parametrize("through", [3, "text", [1]])
def test_an_override_cannot_go_through_a_value(through: object) -> None:
    with pytest.raises(UsageError, match=r"'a\.b' is a value and has no keys"):
        apply_overrides({"a": {"b": through}}, ["a.b.c=1"])


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("hardware.nodes=0", "--set hardware.nodes=0: hardware.nodes: must be at least 1, not 0"),
        (
            "hardware.node=2",
            "--set hardware.node=2: hardware.node: unknown key 'node', did you mean 'nodes'?",
        ),
        ("hardwear.gpu=A", "--set hardwear.gpu=A: hardwear: unknown key 'hardwear', did you mean 'hardware'?"),
        ("hardware={nodes: 2}", "--set hardware={nodes: 2}: hardware: missing required key 'gpu'"),
        ("seed=x", "--set seed=x: seed: a whole number is needed, not 'x'"),
    ],
)
def test_a_problem_in_an_override_names_the_assignment(assignment: str, expected: str) -> None:
    (source,) = scenario_sources(parse_document("hardware: {gpu: H100}\n", "x.yaml"))
    with pytest.raises(ConfigError) as caught:
        validate(override(source, [assignment]), Scenario)
    assert str(caught.value) == expected


def test_a_problem_beside_an_override_still_names_the_line() -> None:
    (source,) = scenario_sources(parse_document("hardware: {gpu: 7}\n", "x.yaml"))
    with pytest.raises(ConfigError) as caught:
        validate(override(source, ["hardware.nodes=2"]), Scenario)
    assert messages(caught) == ["x.yaml:1:17: hardware.gpu: text is needed, not 7"]


def test_an_override_can_rename_a_scenario() -> None:
    (source,) = scenario_sources(parse_document("name: a\n", "x.yaml"))
    assert override(source, ["name=b"]).name == "b"
    assert source.name == "a"


def test_everything_promised_is_offered() -> None:
    assert all(hasattr(loader, name) for name in loader.__all__)
