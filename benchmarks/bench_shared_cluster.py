"""Two jobs that share a fat tree: how much faster medium is than high, and how far off."""

from __future__ import annotations

import time
from typing import Any

import pytest
from conftest import FIGURES

from simsys.config.experiment import SimulationConfig
from simsys.metrics.result import RunResult
from simsys.simulation import simulate

CLUSTER: dict[str, Any] = {
    "hardware": {
        "gpu": "A100-SXM-80GB",
        "num_nodes": 8,
        "gpus_per_node": 4,
        "nic": {"bandwidth": "25 GB/s", "count": 1, "latency": "0 s"},
    },
    "network": {"topology_type": "fat_tree", "leaf_size": 2, "oversubscription": 4},
    "model": {"name": "GPT2-Medium"},
    "training": {"batch_size_per_gpu": 4, "num_iterations": 10},
}
BERT = {"name": "bert", "gpus": 16, "model": {"name": "BERT-Large"}}
JOBS = {
    "ddp-beside-ddp": [{"name": "gpt", "gpus": 16}, BERT],
    "tp-beside-ddp": [{"name": "tp", "gpus": 16, "parallelism": {"strategy": "TP_DDP", "tp_degree": 2}}, BERT],
    "ddp-beside-fsdp": [{"name": "gpt", "gpus": 16}, {**BERT, "parallelism": {"strategy": "FSDP"}}],
}


def run(jobs: list[dict[str, Any]], placement: str, **simulation: Any) -> tuple[RunResult, float]:
    config = SimulationConfig(**CLUSTER, jobs=jobs, scheduling={"placement": placement}, simulation=simulation)
    started = time.process_time()
    return simulate(config), time.process_time() - started


@pytest.mark.parametrize("placement", ["spread", "random"])
@pytest.mark.parametrize("name", JOBS)
def test_jobs_that_share_a_fat_tree(name: str, placement: str, benchmark: Any) -> None:
    """Iteration times within 2 % of high's, where idle links are a quarter off and more."""
    (medium, _), (high, high_s) = (run(JOBS[name], placement, lod=lod) for lod in ("medium", "high"))
    idle, _ = run(JOBS[name], placement, lod="medium", occupy_links=False)
    benchmark.pedantic(lambda: run(JOBS[name], placement, lod="medium"), rounds=3)
    for slow, fast, alone in zip(high.jobs, medium.jobs, idle.jobs, strict=True):
        true_s, found_s, idle_s = (each.metrics["mean_iteration_s"] for each in (slow, fast, alone))
        errors = f"{found_s / true_s - 1:+.2%} ({idle_s / true_s - 1:+.1%} on idle links)"
        FIGURES.append((f"{name} {placement}, {slow.name}", errors))
        assert found_s == pytest.approx(true_s, rel=0.02)
        assert idle_s < 0.9 * true_s
    medium_s = min(run(JOBS[name], placement, lod="medium")[1] for _ in range(3))
    gain = f"{high.events / medium.events:.0f} times fewer events, {high_s / medium_s:.0f} times less CPU time"
    FIGURES.append(("", gain))
    assert high.events > 4 * medium.events
