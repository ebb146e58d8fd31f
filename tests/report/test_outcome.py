"""Errors that show only while a scenario is simulated have the place of what causes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from simsys.cli import cli
from simsys.errors import InfeasibleError, OutOfMemoryError, UsageError
from simsys.report.outcome import plan_scenarios, run_scenario

LATE = """\
name: late
hardware: {gpu: H100-SXM}
model: {name: GPT2-Small}
training: {batch_size_per_gpu: 8, num_iterations: 2}
jobs:
  - name: endless
    training: {batch_size_per_gpu: 8, num_iterations: 2, data_loading: {time: 1e20 s}}
  - name: waits
"""
SLOW = """\
defaults:
  hardware: {gpu: H100-SXM}
  model: {name: GPT2-Small}
scenarios:
  - name: fine
    training: {batch_size_per_gpu: 8, num_iterations: 2}
  - name: slow
    serving: {engine: vllm, api_overhead: 9e9 s}
    workload: {arrivals: {kind: poisson, rate: 5 req/s}, prompt_tokens: 50, output_tokens: 20, num_requests: 40}
"""


def simsys(command: str, text: str, folder: Path, *options: str) -> Result:
    file = folder / "e.yaml"
    file.write_text(text)
    return CliRunner().invoke(cli, [command, str(file), "--no-files", *options])


def test_a_job_that_would_start_too_late_is_reported_at_its_line(tmp_path: Path) -> None:
    result = simsys("run", LATE, tmp_path)
    assert result.exit_code == 2
    place = f"{tmp_path / 'e.yaml'}:8:5: jobs[1]: "
    assert result.stderr.startswith(f"{place}job waits would start after 2e+20 s; at most 1e+10 s")


@pytest.mark.parametrize("options", [(), ("--set", "simulation.seed=3"), ("--scenario", "slow")])
def test_a_run_that_cannot_be_measured_is_reported_at_its_scenario(tmp_path: Path, options: tuple[str, ...]) -> None:
    result = simsys("run", SLOW, tmp_path, *options)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"{tmp_path / 'e.yaml'}:7:5: requests are under way for 9e+09 s")
    assert ("fine: " in result.stdout) == ("--scenario" not in options)


def test_an_error_is_reported_even_if_the_file_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "e.yaml"
    file.write_text(LATE)
    (plan,) = plan_scenarios(file, (), ())
    file.unlink()
    with pytest.raises(UsageError, match=r"^job waits would start after"):
        run_scenario(plan, None)


def test_a_comparison_names_the_file_and_the_scenario_that_it_refuses(tmp_path: Path) -> None:
    result = simsys("lod", SLOW, tmp_path, "--scenario", "slow")
    assert result.exit_code == 2
    assert f"{tmp_path / 'e.yaml'}: slow: requests are under way for 9e+09 s" in result.stderr


TIGHT = """\
defaults:
  hardware: {gpu: H100-SXM}
scenarios:
  - name: fine
    model: {name: GPT2-Small}
    training: {batch_size_per_gpu: 8, num_iterations: 2}
  - name: large
    model: {name: Llama2-70B}
    training: {batch_size_per_gpu: 8, num_iterations: 2}
"""


def test_what_does_not_fit_is_reported_at_its_line(tmp_path: Path) -> None:
    result = simsys("run", TIGHT, tmp_path, "--quiet")
    assert result.exit_code == 3
    fine, large = result.stdout.splitlines()
    assert fine.startswith("fine: ")
    assert large.startswith(f"large: {tmp_path / 'e.yaml'}:8:19: model.name: Llama-2-70B does not fit into H100-SXM")


@pytest.mark.parametrize(
    ("error", "place"),
    [
        (OutOfMemoryError("GPU 0 is out of memory"), "5:19: model.name: GPU 0 is out of memory"),
        (InfeasibleError("no path leads there", "network"), "4:5: network: no path leads there"),
        (InfeasibleError("no fp8 arithmetic", "hardware"), "2:13: hardware: no fp8 arithmetic"),
    ],
    ids=["memory", "network", "hardware"],
)
def test_a_run_that_turns_out_not_to_fit_is_reported_at_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: InfeasibleError, place: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise type(error)(str(error)) from error  # as a process of a simulation does

    monkeypatch.setattr("simsys.report.outcome.simulate", fail)
    result = simsys("run", TIGHT, tmp_path, "--scenario", "fine")
    assert result.exit_code == 3
    assert f"{tmp_path / 'e.yaml'}:{place}" in result.stdout
