"""Passes on shared links: without waking processes in between, and ranks of one group as one."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.config.experiment import SimulationConfig
from simsys.executors.iterations.pass_chains import PassChains
from simsys.metrics.result import RunResult
from simsys.simulation import simulate

HARDWARE = {"gpu": "A100-SXM-80GB", "num_nodes": 8, "gpus_per_node": 4, "nic": {"bandwidth": "25 GB/s", "count": 1}}
CLUSTER = {"hardware": HARDWARE, "network": {"topology_type": "fat_tree", "leaf_size": 2, "oversubscription": 4}}
TRAINING = {"model": {"name": "GPT2-Medium"}, "training": {"batch_size_per_gpu": 4, "num_iterations": 2}}


def beside(parallelism: dict[str, Any], **training: Any) -> SimulationConfig:
    """A job whose tensor-parallel pairs lie anywhere, beside one that shards its weights."""
    jobs = [
        {"name": "tensor", "gpus": 16, "parallelism": parallelism},
        {"name": "sharded", "gpus": 16, "parallelism": {"strategy": "FSDP"}},
    ]
    given = {**TRAINING, "training": {**TRAINING["training"], **training}}
    return SimulationConfig(**CLUSTER, **given, jobs=jobs, scheduling={"placement": "random"})


def rows(result: RunResult) -> list[float]:
    return [seconds for job in result.jobs for seconds in job.rows["iteration_s"]]


@pytest.mark.parametrize(
    "parallelism",
    [
        {"strategy": "TP_DDP", "tp_degree": 2},
        {"strategy": "TP_FSDP", "tp_degree": 2},
        {"strategy": "TP_ZERO1", "tp_degree": 4, "sequence_parallel": True},
        {"strategy": "TP_DDP", "tp_degree": 2, "sequence_parallel": True, "tp_overlap": True},
    ],
    ids=lambda given: "-".join(map(str, given.values())),
)
def test_ranks_that_go_through_passes_as_one_take_the_same_time(
    parallelism: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    joint = list[Any]()
    find = PassChains._joint_begins

    def counted(self: PassChains, *args: Any) -> Any:
        joint.append(find(self, *args))
        return joint[-1]

    monkeypatch.setattr(PassChains, "_joint_begins", counted)
    together = simulate(beside(parallelism))
    monkeypatch.setattr(PassChains, "_joint_begins", lambda *_: None)
    apart = simulate(beside(parallelism))
    assert rows(together) == pytest.approx(rows(apart), rel=1e-12)
    assert [job.ranks for job in together.jobs] == [job.ranks for job in apart.jobs]
    if parallelism.get("tp_overlap"):
        return
    assert any(joint)
    assert together.events < 0.95 * apart.events
