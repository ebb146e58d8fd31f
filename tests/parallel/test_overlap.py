"""Collectives beside computation take a share of the GPU: as long as they go on, and no longer than that shows."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.build.job import build_job
from simsys.check import check_config
from simsys.config.experiment import SimulationConfig
from simsys.config.model import ModelConfig
from simsys.executors import LEVELS
from simsys.parallel.layout import Layout
from simsys.simulation import simulate
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


def shared_experts(lod: str = "medium", **parallelism: Any) -> Any:
    return SimulationConfig(
        hardware={"profile": "dgx-h200", "num_nodes": 1, "gpus_per_node": 8},
        model={"name": "DeepSeek-V3", "sequence_length": 1024, "num_layers": 4},
        parallelism={"strategy": "EP_ZERO1", "ep_degree": 8, **parallelism},
        training={"engine": "nemo", "batch_size_per_gpu": 1, "num_iterations": 1},
        simulation={"lod": lod},
    )


def test_shared_experts_beside_all_to_alls_hide_a_part_of_them() -> None:
    alone, beside, high = (
        simulate(shared_experts(lod, shared_expert_overlap=overlap)).metrics
        for overlap, lod in [(False, "medium"), (True, "medium"), (True, "high")]
    )
    assert 0.0 < beside["exposed_expert_s"] < alone["exposed_expert_s"]
    assert 0.999 * alone["compute_s"] < beside["compute_s"] < 1.05 * alone["compute_s"]
    assert beside["mean_iteration_s"] < alone["mean_iteration_s"]
    assert beside["mean_iteration_s"] == pytest.approx(high["mean_iteration_s"], rel=1e-3)


def test_shared_experts_are_no_divided_experts() -> None:
    """Their gradients are exchanged among all replicas, wherever they run; memory and work stay."""
    alone, beside = (build_job(shared_experts(shared_expert_overlap=each)) for each in (False, True))
    assert beside.memory_bytes == alone.memory_bytes
    for group in ("data", "expert_data"):
        plans = [job.plans[0][0] for job in (alone, beside)]
        sums = [sum(block.gradient_bytes for block in plan.blocks if block.over == group) for plan in plans]
        assert sums[1] == pytest.approx(sums[0], rel=1e-12)
    assert beside.plans[0][0].flop == pytest.approx(alone.plans[0][0].flop, rel=1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"expert_overlap": True}, "write one of the two"),
        ({"expert_dispatch": "deepep"}, "it needs expert_dispatch all_to_all"),
        (
            {"strategy": "TP_EP_ZERO1", "tp_degree": 2, "ep_degree": 4, "sequence_parallel": True},
            "with tensor parallelism it is not modelled",
        ),
        ({"strategy": "ZERO1", "ep_degree": 1}, "shared_expert_overlap has no effect without expert parallelism"),
    ],
)
def test_what_shared_experts_cannot_overlap_with_is_refused(changes: dict[str, Any], message: str) -> None:
    problems = check_config(shared_experts(shared_expert_overlap=True, **changes))
    assert any(message in each.message for each in problems)


def test_only_models_with_shared_experts_overlap_them() -> None:
    config = shared_experts(shared_expert_overlap=True)
    config = config.model_copy(update={"model": ModelConfig(name="Qwen3-30B-A3B", sequence_length=512)})
    assert any("Qwen3-30B-A3B has no shared experts" in each.message for each in check_config(config))
    recomputed = shared_experts(shared_expert_overlap=True).with_(
        {"training.activation_recompute": ["shared_experts"]}
    )
    assert any("cannot be recomputed" in each.message for each in check_config(recomputed))
