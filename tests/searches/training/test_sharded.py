"""Bounds of passes with sharded weights are close to the simulated time of idle links, and never above it."""

from __future__ import annotations

import pytest

from simsys.simulation import simulate
from tests.helpers.search_spaces import candidates, settled, training


@pytest.mark.parametrize(
    ("over", "least"),
    [
        ({"parallelism.strategy": ["FSDP"], "parallelism.tp_degree": [1, 2]}, 0.97),
        ({"parallelism.strategy": ["HSDP"], "parallelism.cp_degree": [1, 2]}, 0.95),
        ({"parallelism.strategy": ["FSDP"], "parallelism.pp_stages": [2], "parallelism.schedule": ["1f1b"]}, 0.93),
    ],
    ids=["fsdp", "hsdp", "pipelines"],
)
def test_the_bound_is_close_to_the_time_on_idle_links(over, least):
    config = training(
        "Llama3-8B",
        nodes=2,
        gpus=8,
        batch=64,
        simulation={"occupy_links": False},
    )
    base, _, found = candidates(config, {**over, "training.batch_size_per_gpu": [1, 2]})
    assert found
    for each in found:
        seconds = simulate(settled(base, each)).metrics["steady_iteration_s"]
        assert least * seconds < each.bound_s <= seconds * (1 + 1e-9), each
