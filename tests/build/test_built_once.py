"""A scenario is built once, whether it is checked, run or both, from the command line and from Python."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from simsys import DistributedAISimulator, SimulationConfig
from simsys.check import check_file
from simsys.cli import cli
from simsys.simulation import simulate

STEPS = {
    ("simsys.build.cluster", "build_cluster"),
    ("simsys.build.network", "build_topology"),
    ("simsys.build.model", "build_model"),
    ("simsys.build.resolved_serving", "resolved_serving"),
    ("simsys.build.serving", "serving_job"),
    ("simsys.build.training", "training_job"),
    ("simsys.build.workload", "build_requests"),
    ("simsys.config.hardware", "load_engine"),
    ("simsys.executors.levels", "costed_model"),
    ("simsys.parallel.replica", "replica_stages"),
    ("simsys.parallel.serving_memory", "serving_memory"),
}

SERVING: dict[str, Any] = {
    "name": "served",
    "hardware": {"gpu": "H100-SXM"},
    "model": {"name": "GPT2-Small"},
    "serving": {},
    "workload": {
        "arrivals": {"kind": "poisson", "rate": "100 req/s"},
        "prompt_tokens": 64,
        "output_tokens": 4,
        "num_requests": 8,
    },
}
TRAINING: dict[str, Any] = {
    "name": "trained",
    "hardware": {"profile": "dgx-h100"},
    "model": {"name": "GPT2-Small"},
    "training": {"batch_size_per_gpu": 1, "num_iterations": 2},
}
BUILT_OF = {
    "served": {"resolved_serving", "serving_job", "build_requests", "replica_stages", "serving_memory"},
    "trained": {"training_job"},
}
ALWAYS = {"build_cluster", "build_topology", "build_model", "load_engine", "costed_model"}


def calls(work: Callable[[], object]) -> Counter[str]:
    """How often each step of building is taken."""
    found: Counter[str] = Counter()

    def note(frame: Any, event: str, argument: object) -> None:
        if event == "call" and (frame.f_globals.get("__name__"), frame.f_code.co_name) in STEPS:
            found[frame.f_code.co_name] += 1

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def expected(name: str) -> dict[str, int]:
    return dict.fromkeys(ALWAYS | BUILT_OF[name], 1)


@pytest.mark.parametrize("data", [SERVING, TRAINING], ids=["serving", "training"])
def test_the_command_builds_a_scenario_once(tmp_path: Path, data: dict[str, Any]) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text(yaml.safe_dump(data), encoding="utf-8")
    result: list[int] = []
    found = calls(lambda: result.append(CliRunner().invoke(cli, ["run", str(file), "--no-files"]).exit_code))
    assert result == [0]
    assert found == expected(data["name"])


@pytest.mark.parametrize("data", [SERVING, TRAINING], ids=["serving", "training"])
@pytest.mark.parametrize(
    "run", [lambda config: DistributedAISimulator(config).run(), simulate], ids=["facade", "function"]
)
def test_python_builds_a_scenario_once(data: dict[str, Any], run: Callable[[SimulationConfig], object]) -> None:
    config = SimulationConfig(**data)
    assert calls(lambda: run(config)) == expected(data["name"])


def test_jobs_that_share_a_cluster_are_built_once_each() -> None:
    jobs = [{"name": "a", "gpus": 4}, {"name": "b", "gpus": 4, "model": {"name": "GPT2-Medium"}}]
    config = SimulationConfig(**TRAINING, jobs=jobs)
    found = calls(lambda: DistributedAISimulator(config).run())
    assert (found["build_cluster"], found["build_topology"]) == (1, 1)
    assert found["build_model"] == 2
    # A job is built anew only on other GPUs than the first ones.
    assert found["training_job"] == 3


def test_requests_of_many_scenarios_are_not_all_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simsys.check.scenario.HELD_REQUESTS", 12)
    file = tmp_path / "experiment.yaml"
    file.write_text(yaml.safe_dump({"scenarios": [SERVING, {**SERVING, "name": "again"}]}), encoding="utf-8")
    first, second = check_file(file, limit_s=60.0)
    assert ["requests" in job.__dict__ for job in (*first.jobs, *second.jobs)] == [True, False]
    assert simulate(second.config, built=second).metrics["completed"] == 8


@pytest.mark.parametrize("command", ["check", "memory"])
def test_other_commands_build_a_scenario_once_too(tmp_path: Path, command: str) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text(yaml.safe_dump(SERVING), encoding="utf-8")
    found = calls(lambda: CliRunner().invoke(cli, [command, str(file)]))
    assert {name: count for name, count in found.items() if name in ALWAYS} == dict.fromkeys(ALWAYS, 1)


def test_a_run_from_the_check_knows_the_profiles_that_were_read() -> None:
    result = DistributedAISimulator(SimulationConfig(**SERVING)).run()
    assert {"gpu H100-SXM", "engine vllm"} <= set(result.profiles)
    assert result.profiles == simulate(SimulationConfig(**SERVING)).profiles
