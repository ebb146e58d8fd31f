"""Collectives beside computation take a share of the GPU: as long as they go on, and no longer than that shows."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.build.job import build_job
from simsys.config.experiment import SimulationConfig
from simsys.executors import LEVELS
from simsys.parallel.layout import Layout
from tests.helpers.training_toys import block_of, ring_seconds, train

both_levels = pytest.mark.parametrize("level", LEVELS)
RANKS, SHARE, SLOW_S = 4, 0.2, 1.0
SIZE = 16e6
EXCHANGE_S = ring_seconds(SIZE, RANKS)


def end(level: str, name: str, share: float, compute_s: float, **settings: Any) -> float:
    """When one step of four equal blocks ends that compute so long forward and as long backward."""
    blocks = [block_of(SIZE, forward_s=compute_s, backward_s=compute_s)] * 4
    return train(level, name, [blocks], Layout(data=RANKS), communication_share=share, **settings).end_s


@both_levels
@pytest.mark.parametrize(("name", "rounds"), [("ddp", 2), ("zero1", 1), ("zero2", 1)])
@pytest.mark.parametrize("micro_batches", [1, 3])
def test_buckets_slow_down_the_backward_pass_that_they_go_on_beside(
    level: str, name: str, rounds: int, micro_batches: int
) -> None:
    """All but the last, after which nothing is computed; ZeRO-2 has buckets in every micro-batch."""
    whole = {"bucket_size": f"{SIZE:.0f} B", "first_bucket_size": f"{SIZE:.0f} B", "micro_batches": micro_batches}
    longer_s = end(level, name, SHARE, SLOW_S, **whole) - end(level, name, 0.0, SLOW_S, **whole)
    buckets = 4 * micro_batches - 1 if name == "zero2" else 3
    assert longer_s == pytest.approx(buckets * SHARE * rounds * EXCHANGE_S, rel=1e-9)


@both_levels
def test_without_overlap_nothing_is_slowed_down(level: str) -> None:
    for name in ("ddp", "zero1"):
        apart = {"overlap": False}
        assert end(level, name, SHARE, SLOW_S, **apart) == end(level, name, 0.0, SLOW_S, **apart)


@both_levels
@pytest.mark.parametrize("micro_batches", [1, 2])
def test_weights_and_gradients_of_fsdp_slow_down_the_units_beside_them(level: str, micro_batches: int) -> None:
    """A pass of four units prefetches three and one has been gathered before; the last reduction is alone."""
    settings = {"micro_batches": micro_batches}
    longer_s = end(level, "fsdp", SHARE, SLOW_S, **settings) - end(level, "fsdp", 0.0, SLOW_S, **settings)
    gathers, scatters = 6 * micro_batches, 4 * micro_batches - 1
    assert longer_s == pytest.approx((gathers + scatters) * SHARE * EXCHANGE_S, rel=1e-9)


@both_levels
def test_where_communication_is_waited_for_a_share_of_the_gpu_costs_nothing(level: str) -> None:
    """Computation beside it ends before it all the same."""
    short_s = 0.1 * EXCHANGE_S
    assert end(level, "fsdp", SHARE, short_s) == pytest.approx(end(level, "fsdp", 0.0, short_s), rel=0.02)


@pytest.mark.parametrize(("engine", "shares"), [("pytorch-fsdp", True), ("nemo", True), ("megatron", False)])
def test_engines_that_overlap_say_how_large_the_share_is(engine: str, shares: bool) -> None:
    config = {
        "hardware": {"profile": "dgx-h100", "num_nodes": 2},
        "model": {"name": "Llama3-8B"},
        "parallelism": {"strategy": "FSDP"},
        "training": {"batch_size_per_gpu": 1, "engine": engine, "num_iterations": 1},
    }
    job = build_job(SimulationConfig.model_validate(config))
    assert (0.0 < job.execution_model().communication_share <= 0.5) == shares
    assert any("overlapped collectives slow concurrent computation by" in text for text in job.assumptions()) == shares
