"""`simsys lod`, as it is called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import simsys.level_study.compare as module
from simsys.cli import cli
from tests.helpers.level_study_toys import at_once

pytestmark = pytest.mark.usefixtures("what_others_left_is_kept")

CHAT = """
name: chat
hardware: {gpu: H100-SXM}
model: {name: Llama3-8B}
serving: {engine: vllm}
workload:
  arrivals: {kind: poisson, rate: 4 req/s}
  prompt_tokens: 200
  output_tokens: 6
  num_requests: 5
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with measurements in this process."""
    monkeypatch.chdir(tmp_path)
    settings = module.Settings

    def in_process(**given: Any) -> module.Settings:
        return settings(**given, call=at_once)

    monkeypatch.setattr(module, "Settings", in_process)
    return tmp_path


def lod(folder: Path, text: str, *options: str) -> Result:
    (folder / "chat.yaml").write_text(text, encoding="utf-8")
    return CliRunner().invoke(cli, ["lod", "chat.yaml", "--repeats", "1", *options])


def test_both_levels_are_printed_and_written(here: Path) -> None:
    result = lod(here, CHAT)
    assert result.exit_code == 0, result.output
    assert "medium vs high" in result.stdout
    assert "conclusion" in result.stdout
    data = json.loads((here / "results" / "level_of_detail.json").read_text(encoding="utf-8"))
    assert data["scenarios"][0]["name"] == "chat"
    assert (here / "results" / "level_of_detail.png").read_bytes().startswith(b"\x89PNG")


def test_the_answer_can_be_json(here: Path) -> None:
    result = lod(here, CHAT, "--json", "--no-files", "--profile", "--attribution")
    data = json.loads(result.stdout)
    assert data["schema_version"] == 1
    assert data["files"] == []
    assert data["breakdown"][0]["levels"]["high"]
    assert data["attribution"][0]["variants"]
    assert not (here / "results").exists()


def test_a_scenario_without_requests_is_refused(here: Path) -> None:
    result = lod(here, CHAT.replace("num_requests: 5", "duration: 1 us"))
    assert result.exit_code == 2
    assert "no request" in result.stderr
    assert result.stdout == ""
    assert not (here / "results").exists()


def test_high_that_would_take_too_long_is_asked_about_before_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measured in processes of their own, as users do it."""
    monkeypatch.chdir(tmp_path)
    result = lod(tmp_path, CHAT.replace("num_requests: 5", "num_requests: 20000"), "--limit", "1")
    assert result.exit_code == 2
    assert "high would take about" in result.stderr
    assert "--yes" in result.stderr


def test_a_scenario_that_does_not_fit_is_infeasible(here: Path) -> None:
    result = lod(here, CHAT.replace("Llama3-8B", "Llama3-70B"))
    assert result.exit_code == 3
    assert "does not fit" in result.stderr


def test_a_typing_error_is_a_wrong_usage(here: Path) -> None:
    assert lod(here, CHAT.replace("H100-SXM", "H1000-SXM")).exit_code == 2
    assert lod(here, CHAT, "--scenario", "chats").exit_code == 2
    assert lod(here, CHAT, "--limit", "0").exit_code == 2


def test_an_interrupt_leaves_what_was_found(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("simsys.level_study.study.break_down", interrupted)
    result = lod(here, CHAT, "--profile", "--no-files")
    assert result.exit_code == 130
    assert "conclusion" in result.stdout
    assert "interrupted" in result.stderr
