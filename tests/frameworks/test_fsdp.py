"""Fully sharded data parallel: volume, overlap and equality of the levels of detail."""

from __future__ import annotations

from typing import Any

import pytest

from frameworks.fsdp import FSDP
from simsys.build.job import build_job
from simsys.check import check_config
from simsys.config.experiment import SimulationConfig
from simsys.errors import UsageError
from simsys.executors import LEVELS
from simsys.parallel.layout import Layout
from simsys.testing import check_framework, record
from tests.helpers.thorough import every_second
from tests.helpers.training_toys import block_of, ring_seconds, train

both_levels = pytest.mark.parametrize("level", LEVELS)
SIZES = (4e6, 16e6, 16e6, 16e6, 2e6)
MODEL = sum(SIZES)
SLOW_S = 1.0
"""Longer than any collective here."""


def model(forward_s: float = 0.0, backward_s: float = 0.0) -> list[Any]:
    """Three equal layers between two others."""
    first, layer, last = (block_of(size, forward_s=forward_s, backward_s=backward_s) for size in (4e6, 16e6, 2e6))
    return [first, layer, layer, layer, last]


@pytest.mark.parametrize(
    "options",
    [
        {"shard_size": 2},
        {"shard_size": 1},
        {"reshard_after_forward": False, "no_sync": True},
        {"forward_prefetch": False, "backward_prefetch": False},
    ],
)
def test_it_conforms_with_other_options(options: dict[str, Any]) -> None:
    check_framework(FSDP, **options)


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize(
    ("options", "moved"),
    [
        ({}, 3 * MODEL - SIZES[-1]),  # the last unit stays gathered
        ({"reshard_after_forward": False}, 2 * MODEL),
    ],
)
@pytest.mark.parametrize("micro_batches", [1, 3])
def test_every_rank_sends_two_or_three_times_the_model(
    ranks: int, options: dict[str, Any], moved: float, micro_batches: int
) -> None:
    """Each all-gather and reduce-scatter of S bytes sends S(n-1)/n."""
    run = train("high", "fsdp", [model()], Layout(data=ranks), micro_batches=micro_batches, **options)
    expected = micro_batches * moved * (ranks - 1) / ranks
    assert run.platform.gpu_statistics()["sent_bytes"] == pytest.approx([expected] * ranks, rel=1e-12)


def test_without_sync_only_the_last_micro_batch_scatters_gradients() -> None:
    run = train("high", "fsdp", [model()], Layout(data=4), micro_batches=3, no_sync=True)
    gathered = 3 * (2 * MODEL - SIZES[-1])
    assert run.platform.gpu_statistics()["sent_bytes"] == pytest.approx([(gathered + MODEL) * 3 / 4] * 4, rel=1e-12)


@both_levels
@pytest.mark.parametrize("prefetch", [True, False])
def test_without_computation_a_step_is_the_sum_of_its_collectives(level: str, prefetch: bool) -> None:
    options = {"forward_prefetch": prefetch, "backward_prefetch": prefetch}
    run = train(level, "fsdp", [model()], Layout(data=4), **options)
    collectives = [*SIZES, *SIZES[:-1], *SIZES]
    assert run.end_s == pytest.approx(sum(ring_seconds(size, 4) for size in collectives), rel=1e-9)


@both_levels
@pytest.mark.parametrize("micro_batches", [1, 3])
def test_long_computation_hides_all_but_the_first_gather_and_the_last_scatter(level: str, micro_batches: int) -> None:
    run = train(level, "fsdp", [model(SLOW_S, 2 * SLOW_S)], Layout(data=4), micro_batches=micro_batches)
    exposed = ring_seconds(SIZES[0], 4) + ring_seconds(SIZES[0], 4)
    assert run.end_s == pytest.approx(micro_batches * (5 * 3 * SLOW_S + exposed), rel=1e-12)


@both_levels
def test_without_prefetch_nothing_is_hidden(level: str) -> None:
    run = train(
        level,
        "fsdp",
        [model(SLOW_S, 2 * SLOW_S)],
        Layout(data=4),
        forward_prefetch=False,
        backward_prefetch=False,
    )
    collectives = [*SIZES, *SIZES[:-1], *SIZES]
    assert run.end_s == pytest.approx(15 * SLOW_S + sum(ring_seconds(size, 4) for size in collectives), rel=1e-12)


@both_levels
def test_a_hybrid_shard_reduces_the_shards_of_the_gradients_over_the_replicas(level: str) -> None:
    run = train(level, "fsdp", [model(SLOW_S, 2 * SLOW_S)], Layout(data=8), shard_size=4)
    last_shard = 2 * ring_seconds(SIZES[0] / 4, 2)
    assert run.end_s == pytest.approx(15 * SLOW_S + 2 * ring_seconds(SIZES[0], 4) + last_shard, rel=1e-12)


@both_levels
def test_replicas_reduce_a_shard_once_it_is_there(level: str) -> None:
    run = train(level, "fsdp", [model(1e-5, 1e-5)], Layout(data=4), shard_size=2)
    spans = run.log.operations
    ends = [end for op, _, end in spans if op.name == "gradients" and op.group.ranks == (0, 1)]
    reduced = [(start, end) for op, start, end in spans if op.name == "gradient shards" and op.group.ranks == (0, 2)]
    assert len(ends) == len(reduced) == 5
    free_s = 0.0
    for there_s, (start_s, end_s) in zip(ends, reduced, strict=True):
        assert start_s == pytest.approx(max(there_s, free_s), rel=1e-9)
        free_s = end_s


def test_at_most_two_units_are_gathered_for_one_that_computes() -> None:
    """The next all-gather is asked for when a unit begins, not earlier."""
    mine = [op for op in record(FSDP) if op["rank"] == 0]
    names = [op["name"] for op in mine if op["name"] in ("parameters", "forward", "backward")]
    # embedding, two layers, head
    forward = ["parameters", "parameters", "forward", "parameters", "forward", "parameters", "forward", "forward"]
    assert names[: len(forward)] == forward
    backward = ["parameters", "backward", "parameters", "backward", "parameters", "backward", "backward"]
    assert names[len(forward) : len(forward) + len(backward)] == backward


PIPELINES = [
    (Layout(data=4), "1f1b", 1),
    (Layout(tensor=2, data=4), "1f1b", 1),
    (Layout(data=4, pipeline=2), "1f1b", 1),
    (Layout(tensor=2, data=2, pipeline=2), "gpipe", 1),
    (Layout(data=2, pipeline=2), "interleaved", 2),
    (Layout(data=2, pipeline=2), "zb_h1", 1),
]
RUNS = [
    (*pipeline, micro_batches)
    for pipeline in PIPELINES
    for micro_batches in ((2, 4) if pipeline[1] == "interleaved" else (1, 3))
]


SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("fsdp", {}),
    ("fsdp", {"reshard_after_forward": False, "no_sync": True}),
    ("fsdp", {"shard_size": 2}),
    ("fsdp", {"forward_prefetch": False, "backward_prefetch": False}),
    ("zero1", {"bucket_size": "5 MB"}),
    ("zero2", {"bucket_size": "5 MB"}),
]


@pytest.mark.parametrize(("run", "setting"), every_second(RUNS, SETTINGS))
def test_the_levels_of_detail_agree(run: tuple[Layout, str, int, int], setting: tuple[str, dict[str, Any]]) -> None:
    """Times of computation and communication are alike, so that what hides what changes all the time."""
    (layout, schedule, count, micro_batches), (name, options) = run, setting
    tensor_bytes = 1e6 if layout.tensor > 1 else 0.0

    def block(size: float, forward_s: float) -> Any:
        return block_of(
            size,
            gradient_bytes=2 * size,
            forward_s=forward_s,
            backward_s=2 * forward_s,
            tensor_bytes=tensor_bytes,
            split=schedule == "zb_h1",
        )

    def chunk() -> list[Any]:
        layer = block(16e6, 3e-4)
        return [block(4e6, 1e-5), layer, layer, block(9e6, 1e-3)]

    chunks = [chunk() for _ in range(count)]
    ends = [
        train(level, name, chunks, layout, micro_batches=micro_batches, schedule=schedule, steps=2, **options).end_s
        for level in LEVELS
    ]
    assert ends[0] == pytest.approx(ends[1], rel=1e-9)


def scenario(strategy: str, **training: Any) -> SimulationConfig:
    return SimulationConfig(
        hardware={"profile": "dgx-h100", "num_nodes": 2},
        model={"name": "GPT2-Small"},
        parallelism={"strategy": strategy, "tp_degree": 2 if "TP" in strategy else 1},
        training={"batch_size_per_gpu": 1, **training},
    )


@pytest.mark.parametrize(
    ("strategy", "options", "expected"),
    [
        ("FSDP", {}, 16),
        ("HSDP", {}, 8),
        ("TP_HSDP", {}, 4),  # a node of eight GPUs holds four data-parallel ranks
        ("HSDP", {"shard_size": 4}, 4),
        ("FSDP", {"shard_size": 2}, 2),
    ],
)
def test_a_hybrid_shard_is_what_a_node_holds(strategy: str, options: dict[str, Any], expected: int) -> None:
    shards = build_job(scenario(strategy, options=options)).shards
    assert (shards.weights, shards.gradients, shards.optimizer) == (expected,) * 3


def test_a_shard_size_that_does_not_divide_the_ranks_is_refused() -> None:
    config = scenario("FSDP", options={"shard_size": 3})
    with pytest.raises(UsageError, match="shard_size 3 does not divide the 16 data-parallel ranks"):
        _ = build_job(config).shards
    (problem,) = check_config(config)
    assert str(problem) == (
        "training.options.shard_size: shard_size 3 does not divide the 16 data-parallel ranks; "
        "shard_size: 1 or 2 or 4 would fit"
    )
