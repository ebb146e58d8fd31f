from __future__ import annotations

import pytest

from simsys.config.places import key_path
from simsys.config.setting import with_setting
from simsys.errors import UsageError


def test_only_the_way_to_a_setting_is_copied() -> None:
    data = {"a": {"b": 1, "c": {"d": 2}}, "jobs": [{"gpus": 1}, {"gpus": 2}]}
    changed = with_setting(data, key_path("a.b"), 5, "test")
    assert changed["a"] == {"b": 5, "c": {"d": 2}}
    assert data["a"]["b"] == 1
    assert changed["a"]["c"] is data["a"]["c"]
    other = with_setting(data, key_path("jobs[1].gpus"), 8, "test")
    assert [job["gpus"] for job in other["jobs"]] == [1, 8]
    assert data["jobs"][1] == {"gpus": 2}


def test_a_named_profile_becomes_one_that_extends_it() -> None:
    changed = with_setting({"hardware": {"gpu_model": "H100"}}, key_path("hardware.gpu.memory"), "80 GB", "test")
    assert changed == {"hardware": {"gpu": {"extends": "H100", "memory": "80 GB"}}}


@pytest.mark.parametrize(
    ("path", "text"),
    [("a.b.c", "'a.b' is a value"), ("jobs[4].gpus", "there is no 'jobs\\[4\\]'"), ("a[0]", "'a' is a value")],
)
def test_a_way_that_does_not_exist_is_refused(path: str, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        with_setting({"a": {"b": 1}, "jobs": [{}]}, key_path(path), 1, "test")
