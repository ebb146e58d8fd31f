"""The remedy that a message names, and what it says of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from simsys.build.job import build_job
from simsys.build.training import TrainingJob
from simsys.check import check_config, check_file, effects
from simsys.check.advice import OTHERWISE, advice
from simsys.check.effects import Stopwatch, iteration_seconds, remedy_effect
from simsys.check.remedies import changed, remedy_text
from simsys.cli import cli
from simsys.config.experiment import SimulationConfig
from simsys.report.memory import memory_answer


def training(gpu: Any, model: str, batch: int, **settings: Any) -> SimulationConfig:
    return SimulationConfig(
        hardware={"gpu": gpu}, model={"name": model}, training={"batch_size_per_gpu": batch, **settings}
    )


def replicated(model: str, batch: int, *, num_nodes: int = 1, **parallelism: Any) -> SimulationConfig:
    return SimulationConfig(
        hardware={"profile": "dgx-h100", "num_nodes": num_nodes},
        model={"name": model},
        parallelism=parallelism,
        training={"batch_size_per_gpu": batch},
    )


SMALL: dict[str, Any] = {"extends": "H100", "memory": "22 GB"}
CASES: dict[str, tuple[SimulationConfig, dict[str, Any]]] = {
    "a smaller batch": (
        training("H100", "GPT2-Medium", 4096),
        {"training.batch_size_per_gpu": 32, "training.gradient_accumulation_steps": 128},
    ),
    "recomputation, if even one sample is too much": (
        training({"extends": "H100", "memory": "28 GB"}, "GPT2-XL", 1),
        {"training.activation_recompute": "full"},
    ),
    "fused attention before anything else": (
        training("H100", "GPT2-XL", 8, attention="unfused"),
        {"training.attention": "fused"},
    ),
    "sgd, if states alone are too much": (
        training(SMALL, "GPT2-XL", 1, activation_recompute="full"),
        {"training.optimizer": "sgd"},
    ),
    "both sgd and a smaller batch": (
        training(SMALL, "GPT2-XL", 64, activation_recompute="full"),
        {
            "training.optimizer": "sgd",
            "training.batch_size_per_gpu": 1,
            "training.gradient_accumulation_steps": 64,
        },
    ),
    "shards in place of replicas, those that are fastest": (
        replicated("Llama-2-7B", 1, strategy="DDP"),
        {"parallelism.strategy": "FSDP"},
    ),
    "also where no strategy is given, with a smaller batch": (
        replicated("Llama3-8B", 8),
        {
            "parallelism.strategy": "FSDP",
            "training.batch_size_per_gpu": 1,
            "training.gradient_accumulation_steps": 8,
        },
    ),
    "shards beside the parallelism there is": (
        replicated("Llama3-70B", 1, num_nodes=16, strategy="TP_ZERO1", tp_degree=8),
        {"parallelism.strategy": "TP_FSDP"},
    ),
    "no further sharding of what is sharded": (
        replicated("Llama3-70B", 1, num_nodes=8, strategy="FSDP"),
        {"training.activation_recompute": "full"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_fix_is_the_best_and_makes_the_check_pass(case: str) -> None:
    config, expected = CASES[case]
    job = build_job(config)
    (problem,) = check_config(config)
    assert problem.fixes[0].edits == expected
    figures = remedy_effect(job, expected, Stopwatch(job)).figures()
    assert problem.message.endswith(f"; {remedy_text(expected)} would fit ({figures})")
    assert all(check_config(changed(config, fix.edits)) == [] for fix in problem.fixes)
    costs = [fix.figures["time_cost"] for fix in problem.fixes if not fix.figures["changes_training"]]
    measured = [cost for cost in costs if cost is not None]
    assert measured == sorted(measured)
    assert costs[: len(measured)] == measured


def test_the_message_says_what_the_remedy_saves_and_costs() -> None:
    (problem,) = check_config(CASES["recomputation, if even one sample is too much"][0])
    saved, _, cost = problem.message.partition("would fit (saves ")[2].rstrip(")").partition(", costs ")
    assert saved.endswith(" GiB")
    assert 20 < float(cost.removesuffix(" % time")) < 40  # one more forward pass: about a third


@pytest.mark.parametrize("model", ["GPT-3-175B", "Megatron-530B"])
def test_without_a_fix_the_advice_says_what_it_would_take(model: str) -> None:
    (problem,) = check_config(training("H100", model, 1))
    assert problem.fixes == ()
    assert problem.message.endswith(OTHERWISE)
    assert advice([]) == OTHERWISE


@pytest.mark.slow
def test_as_many_settings_as_it_takes_where_no_two_suffice() -> None:
    config = replicated("Mixtral-8x7B", 16, num_nodes=4, strategy="DDP")
    (problem,) = check_config(config)
    assert problem.fixes
    for fix in problem.fixes:
        assert check_config(changed(config, fix.edits)) == []
        for path in set(fix.edits) - {"training.gradient_accumulation_steps"}:  # none of them can be left out
            rest = {each: value for each, value in fix.edits.items() if each != path}
            assert check_config(changed(config, rest)) != []


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> list[TrainingJob]:
    """The jobs that checks simulate."""
    jobs: list[TrainingJob] = []

    def count(job: TrainingJob) -> float:
        jobs.append(job)
        return iteration_seconds(job)

    monkeypatch.setattr(effects, "iteration_seconds", count)
    return jobs


@pytest.mark.parametrize(("batch", "fits"), [(4096, False), (8, True)], ids=["does not fit", "fits"])
def test_a_check_simulates_only_where_something_does_not_fit(
    batch: int, fits: bool, simulated: list[TrainingJob]
) -> None:
    check_config(training("H100", "GPT2-Medium", batch))
    assert bool(simulated) != fits


@pytest.mark.parametrize(
    "config",
    [
        replicated("Llama3-8B", 8, strategy="DDP"),
        replicated("Mixtral-8x7B", 16, num_nodes=4, strategy="DDP"),
        replicated("Llama-3.1-405B", 1, num_nodes=128, strategy="TP_PP_DDP", tp_degree=8, pp_stages=2),
    ],
    ids=lambda config: config.model.name,
)
def test_the_search_simulates_a_bounded_number_of_jobs(config: SimulationConfig, simulated: list[TrainingJob]) -> None:
    check_config(config)
    assert 0 < len(simulated) <= effects.MAX_SIMULATIONS


def test_a_strategy_that_fits_with_a_smaller_batch_is_not_said_not_to() -> None:
    answer = memory_answer(build_job(replicated("Llama3-8B", 8, strategy="DDP")))
    assert "no strategy fits alone, but parallelism.strategy: FSDP and training.batch_size_per_gpu: 1" in (
        answer.strategy_advice
    )


JOBS = """\
hardware: {profile: dgx-h100}
model: {name: GPT2-Medium}
training: {batch_size_per_gpu: 8}
jobs:
  - {name: small, gpus: 4}
  - {name: large, gpus: 4, model: {name: Llama3-8B}, parallelism: {strategy: DDP}, training: {batch_size_per_gpu: 1}}
"""


def test_a_fix_of_one_of_several_jobs_changes_what_that_job_gives_itself(tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(JOBS)
    answer = CliRunner().invoke(cli, ["check", str(file), "--json"])
    assert answer.exit_code == 3
    (problem,) = json.loads(answer.stdout)["problems"]
    assert problem["fixes"]
    for fix in problem["fixes"]:
        assert all(edit["path"].startswith("jobs[1].") for edit in fix["edits"])
        data = yaml.safe_load(JOBS)
        for edit in fix["edits"]:
            section, key = edit["path"].removeprefix("jobs[1].").split(".")
            data["jobs"][1][section][key] = edit["value"]
        file.write_text(yaml.safe_dump(data))
        assert check_file(file)
