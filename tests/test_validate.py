"""The commands that compare with measurements, from the files of a user to the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from simsys.cli import cli

EXPERIMENT = """\
name: mine
hardware: {gpu: H100-SXM}
model: {name: GPT2-Small}
serving: {engine: vllm}
workload: {arrivals: {kind: poisson, rate: 20 req/s}, num_requests: 8, prompt_tokens: 64, output_tokens: 8}
simulation: {save_detailed: true}
"""


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A result in the form of vLLM's benchmark, which is of simsys itself."""
    monkeypatch.chdir(tmp_path)
    Path("exp.yaml").write_text(EXPERIMENT)
    assert called("run", "exp.yaml", "--quiet").exit_code == 0
    return Path("results/mine/mine_serving.json")


def called(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def test_a_result_of_ones_own_is_predicted_request_by_request(measured: Path) -> None:
    result = called("validate", str(measured), "--on", "exp.yaml", "--json", "--out", "p.csv")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    serving = found["validation"]["serving"]
    assert serving["coverage"] == 1.0
    assert serving["by_metric"]["ttft_ms"]["rows"] == 8
    assert serving["by_metric"]["ttft_ms"]["mape"] < 1e-3
    assert found["files"] == ["p.csv"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("validate", "results/mine/mine_serving.json"), "name an experiment with --on"),
        (("validate", "results/mine/mine_serving.json", "--on", "exp.yaml", "--scenario", "no"), "unknown scenario"),
        (("validate", "none.csv"), "cannot read none.csv"),
        (("validate", "exp.yaml"), "cells; the header has"),
        (("calibrate", "none.csv", "--out", "profiles"), "cannot read none.csv"),
        (("calibrate", "--out", "profiles"), "Missing argument"),
        (("validate", "--jobs", "0"), "--jobs"),
    ],
)
def test_what_is_wrong_is_told_without_a_traceback(measured: Path, arguments: tuple[str, ...], message: str) -> None:
    result = called(*arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output
    assert not Path("profiles").exists()
