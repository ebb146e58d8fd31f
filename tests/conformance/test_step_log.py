"""Step logs: what is read, and what is refused at its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from simsys.conformance.step_log import read_step_log
from simsys.errors import ConfigError, UsageError

GOOD = (
    '{"step": 3, "arrived": [{"id": "a", "prompt_tokens": 4}], "scheduled": {"a": 4}}\n\n'
    '{"step": 4, "arrived": [{"id": "b", "prompt_tokens": 2, "output_tokens": 1}], "scheduled": {}}\n'
    '{"step": 5, "scheduled": {"a": 1, "b": 2}}\n{"scheduled": {}, "finished": {"a": 2, "b": 1}}\n'
)


def test_steps_without_tokens_only_bring_requests(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(GOOD)
    log = read_step_log(tmp_path / "log")
    assert [step.scheduled for step in log.steps] == [{"a": 4}, {"a": 1, "b": 2}]
    assert log.before == ((0,), (1,))
    assert (log.requests.prompt_tokens, log.requests.output_tokens) == ([4, 2], [2, 1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no steps; a line is such as"),
        ("{", "log:1: not a JSON object"),
        ('{"scheduled": {"a": 0}}', "log:1: scheduled.a: Input should be greater than 0"),
        ('{"scheduled": {"a": 1}}', "log:1: scheduled: request 'a' has not arrived"),
        ('{"arrived": [{"id": "a", "prompt_tokens": 4}], "scheduled": {"a": 4}}', "'a' has no output_tokens"),
        (GOOD + GOOD, "log:6: arrived: request 'a' arrives twice"),
        ('{"schedule": {}}', "log:1: scheduled: Field required"),
    ],
)
def test_bad_logs(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "log").write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_step_log(tmp_path / "log")


def test_no_log(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_step_log(tmp_path / "none")
