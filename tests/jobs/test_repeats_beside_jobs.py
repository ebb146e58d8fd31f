"""On links that several jobs share, equal iterations are repeated while a job has them for itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest

from simsys.config.experiment import SimulationConfig
from simsys.metrics.result import RunResult
from simsys.ops import Operation
from simsys.probes import Probe
from simsys.simulation import simulate

GPT = {"name": "gpt", "gpus": 16}
BERT = {"name": "bert", "gpus": 16, "model": {"name": "BERT-Large"}}
TENSOR = {**GPT, "parallelism": {"strategy": "TP_DDP", "tp_degree": 2}}
SHARDED = {**GPT, "parallelism": {"strategy": "HSDP"}, "options": {"shard_size": 8}}


class Every(Probe):
    """Hears every operation, so that no iteration is repeated."""

    def operation(self, op: Operation, started_s: float, ended_s: float) -> None:
        pass


def job(given: Mapping[str, Any], iterations: int, **settings: Any) -> dict[str, Any]:
    options = {key: given[key] for key in ("options",) if key in given}
    training = {"batch_size_per_gpu": 4, "num_iterations": iterations, **options}
    return {**{key: value for key, value in given.items() if key != "options"}, "training": training, **settings}


def run(jobs: Sequence[Mapping[str, Any]], placement: str, *probes: Probe) -> RunResult:
    hardware = {"gpu": "A100-SXM-80GB", "num_nodes": 8, "gpus_per_node": 4, "network_bandwidth": "25 GB/s"}
    network = {"topology_type": "fat_tree", "leaf_size": 2, "oversubscription": 4}
    config: dict[str, Any] = {"hardware": hardware, "network": network, "model": {"name": "GPT2-Medium"}}
    config["training"] = {"batch_size_per_gpu": 4}
    return simulate(
        SimulationConfig(**config, jobs=list(jobs), scheduling={"placement": placement}), probes=list(probes)
    )


def columns(result: RunResult) -> dict[str, list[Any]]:
    """Figures of GPUs, links and iterations."""
    found = {**result.gpus, **result.links, **{f"all {name}": each for name, each in result.rows.items()}}
    for each in result.jobs:
        found |= {f"{each.name} {name}": column for name, column in each.rows.items()}
    return {
        name: list(column) for name, column in found.items() if all(isinstance(each, int | float) for each in column)
    }


def assert_equal(found: RunResult, expected: RunResult) -> None:
    assert columns(found).keys() == columns(expected).keys()
    for name, column in columns(expected).items():
        assert columns(found)[name] == pytest.approx(column, rel=1e-9, abs=1e-9), name


@pytest.mark.parametrize(
    "jobs",
    [
        (job(GPT, 24), job(BERT, 3)),
        (job(GPT, 24), job(BERT, 3, arrival="3 s")),
        (job(TENSOR, 14), job(BERT, 2, arrival="3 s")),
    ],
    ids=["after it", "before and after it", "before and after it, with ranks told apart"],
)
def test_a_job_repeats_iterations_while_no_other_runs(jobs: Sequence[Mapping[str, Any]]) -> None:
    found, every = run(jobs, "spread"), run(jobs, "spread", Every())
    assert_equal(found, every)
    started_s = found.jobs[0].rows["started_s"]
    seconds = [after_s - before_s for before_s, after_s in pairwise(started_s)]
    assert max(seconds) > 1.1 * min(seconds), "the other job slows it down"
    assert found.events < 0.7 * every.events


def test_links_carry_repeated_iterations_of_jobs_that_do_not_meet() -> None:
    jobs = job(SHARDED, 8), job(BERT, 6)
    found, every = run(jobs, "packed"), run(jobs, "packed", Every())
    assert_equal(found, every)
    assert found.events < 0.5 * every.events
