"""ZeRO-1 and -2: volume, the share of the optimizer, and what each strategy holds in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from simsys.build.job import build_job
from simsys.config.experiment import SimulationConfig
from simsys.executors import LEVELS
from simsys.parallel.layout import Layout
from tests.helpers.toys import work_of
from tests.helpers.training_toys import BANDWIDTH, LATENCY, block_of, ring_seconds, train

both_levels = pytest.mark.parametrize("level", LEVELS)
WEIGHTS, GRADIENTS = 20e6, 40e6
RANKS = 4
STATES = ("parameters", "gradients", "optimizer")


def blocks(backward_s: float = 0.0) -> list[Any]:
    layer = block_of(WEIGHTS / 4, gradient_bytes=GRADIENTS / 4, backward_s=backward_s)
    return [layer] * 4


@pytest.mark.parametrize("micro_batches", [1, 3])
@pytest.mark.parametrize("bucket", ["3 MB", "1 GB"])
@pytest.mark.parametrize(("name", "scattered"), [("zero1", 1), ("zero2", 3)])
def test_every_rank_sends_gradients_and_weights_once(
    name: str, scattered: int, bucket: str, micro_batches: int
) -> None:
    """Stage 2 keeps no whole gradients, so every micro-batch scatters its own."""
    run = train("high", name, [blocks()], Layout(data=RANKS), micro_batches=micro_batches, bucket_size=bucket)
    times = min(scattered, micro_batches)
    expected = (times * GRADIENTS + WEIGHTS) * (RANKS - 1) / RANKS
    assert run.platform.gpu_statistics()["sent_bytes"] == pytest.approx([expected] * RANKS, rel=1e-12)


def test_with_equal_precisions_the_volume_is_that_of_ddp() -> None:
    """Rajbhandari et al. 2020, §7.1."""
    layers = [[block_of(5e6)] * 4]
    ddp, *sharded = (
        train("high", name, layers, Layout(data=RANKS)).platform.gpu_statistics()["sent_bytes"]
        for name in ("ddp", "zero1", "zero2")
    )
    for sent in sharded:
        assert sent == pytest.approx(ddp, rel=1e-12)


@both_levels
@pytest.mark.parametrize("name", ["zero1", "zero2"])
def test_the_weights_are_collected_after_the_optimizer(level: str, name: str) -> None:
    whole = {"first_bucket_size": "1 GB", "overlap": False}
    run = train(level, name, [blocks(0.1)], Layout(data=RANKS), optimizer=work_of(0.5), **whole)
    scatter_s, gather_s = ring_seconds(GRADIENTS, RANKS), ring_seconds(WEIGHTS, RANKS)
    assert run.end_s == pytest.approx(4 * 0.1 + scatter_s + 0.5 + gather_s, rel=1e-12)
    (start_s, end_s), *_ = run.log.spans(0, "parameters")
    assert (start_s, end_s) == pytest.approx((run.end_s - gather_s, run.end_s), rel=1e-12)


@both_levels
@pytest.mark.parametrize(("matrices", "owners"), [(1, 1), (3, 3), (8, 4)])
def test_ranks_broadcast_what_they_own_one_after_another(level: str, matrices: int, owners: int) -> None:
    """A rank owns at least one matrix."""
    layers = [
        replace(block, matrices=((8.0, 8.0, 1),)) if i < matrices else block for i, block in enumerate(blocks() * 2)
    ]
    whole = {"first_bucket_size": "1 GB", "overlap": False}
    run = train(level, "zero1", [layers], Layout(data=RANKS), algorithm="chain", broadcast_parameters=True, **whole)
    each_s = (RANKS - 1) * LATENCY + 2.0 * WEIGHTS / owners / BANDWIDTH
    scatter_s = ring_seconds(2.0 * GRADIENTS, RANKS)
    assert run.end_s == pytest.approx(scatter_s + owners * each_s, rel=1e-12)
    assert len(run.log.spans(0, "parameters")) == owners


@both_levels
def test_buckets_are_hidden_by_the_backward_pass(level: str) -> None:
    """All but the last bucket, which fills when the pass ends."""
    sizes = dict.fromkeys(("bucket_size", "first_bucket_size"), "10 MB")
    run = train(level, "zero1", [blocks(0.1)], Layout(data=RANKS), **sizes)
    exposed_s = ring_seconds(GRADIENTS / 4, RANKS) + ring_seconds(WEIGHTS, RANKS)
    assert run.end_s == pytest.approx(4 * 0.1 + exposed_s, rel=1e-12)


def scenario(strategy: str, **training: Any) -> SimulationConfig:
    return SimulationConfig(
        hardware={"profile": "dgx-h100", "num_nodes": 2},
        model={"name": "Llama3-8B"},
        parallelism={"strategy": strategy},
        training={"batch_size_per_gpu": 1, **training},
    )


@pytest.mark.parametrize(("strategy", "shards"), [("DDP", 1), ("ZERO1", 16), ("ZERO2", 16), ("FSDP", 16), ("HSDP", 8)])
def test_each_rank_updates_its_share(strategy: str, shards: int) -> None:
    alone, job = build_job(scenario("DDP")), build_job(scenario(strategy))
    assert job.plans[0][0].optimizer.nbytes == pytest.approx(alone.plans[0][0].optimizer.nbytes / shards, rel=1e-12)


@pytest.mark.parametrize(
    ("strategy", "settings", "bytes_per_parameter"),
    [  # weights, gradients, optimizer: 16 bytes in all (Rajbhandari et al. 2020, §3.1 and 5)
        ("DDP", {}, (4.0, 4.0, 8.0)),
        ("ZERO1", {}, (2.0, 4.0, 12.0 / 16)),
        ("ZERO2", {}, (2.0, 4.0 / 16, 12.0 / 16)),
        ("ZERO2", {"mixed_precision": False}, (4.0, 4.0 / 16, 8.0 / 16)),
        ("ZERO1", {"optimizer": "sgd"}, (2.0, 4.0, 8.0 / 16)),
        ("FSDP", {}, (4.0 / 16, 4.0 / 16, 8.0 / 16)),
        ("FSDP", {"options": {"no_sync": True}}, (4.0 / 16, 4.0, 8.0 / 16)),
        ("HSDP", {}, (4.0 / 8, 4.0 / 8, 8.0 / 8)),
    ],
)
def test_model_states_are_divided(
    strategy: str, settings: dict[str, Any], bytes_per_parameter: tuple[float, ...]
) -> None:
    job = build_job(scenario(strategy, **settings))
    held = [job.memory_bytes[state] / job.model.parameters for state in STATES]
    assert held == pytest.approx(bytes_per_parameter, rel=1e-12)
    assert ("gathered" in job.memory_bytes) == (strategy in ("FSDP", "HSDP"))


@pytest.mark.parametrize(
    ("options", "units"),
    [
        ({}, 2),  # the head, which computes, and the layer before it
        ({"reshard_after_forward": False}, None),
    ],
)
def test_two_units_are_gathered_when_most_is_held(options: dict[str, Any], units: int | None) -> None:
    """That is at the head, which has the logits."""
    job = build_job(scenario("FSDP", options=options))
    weights = [sum(operator.parameters for operator in block.operators) for block in job.model.blocks]
    assert job.memory_bytes["gathered"] == 2.0 * sum(weights[-units:] if units else weights)
