"""Distributed data parallel: compressed exchanges, static graphs, and the memory of buckets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from frameworks.ddp import DDP
from simsys.build.job import build_job
from simsys.check import check_config
from simsys.config.experiment import SimulationConfig, SimulationSettings
from simsys.executors import LEVELS
from simsys.framework import FRAMEWORKS, DataParallel
from simsys.ops import Collective
from simsys.parallel.compression import CompressedExchange, Compression
from simsys.parallel.layout import Layout
from simsys.parallel.plan import Block
from simsys.simulation import simulate
from simsys.testing import check_framework, record
from tests.helpers.each_case import each_case
from tests.helpers.thorough import every_second
from tests.helpers.toys import Run, work_of
from tests.helpers.training_toys import block_of, ring_seconds, train

both_levels = pytest.mark.parametrize("level", LEVELS)
METHODS = ("none", "fp16", "bf16", "fp8", "topk", "powersgd")
COMPRESSED = METHODS[1:]
ROWS, COLUMNS, VECTOR = 2048.0, 1024.0, 4096
NBYTES = 4.0 * (ROWS * COLUMNS + VECTOR)
"""Of one layer."""
LAYERS, RANKS = 4, 4
MODEL = LAYERS * NBYTES
WHOLE = {"first_bucket_size": "1 GB", "bucket_size": "1 GB"}
MEMORY_BYTES_PER_S, FLOP_PER_S = 100e9, 1e12
"""Of the toy device."""


def layer(backward_s: float = 0.0, **options: Any) -> Block:
    return replace(block_of(NBYTES, backward_s=backward_s, **options), matrices=((ROWS, COLUMNS, 1),))


def compressed(method: Any, ranks: int = RANKS, nbytes: float = MODEL, **options: Any) -> CompressedExchange:
    """What the whole model's gradients, or some of them, become."""
    matrices = ((ROWS, COLUMNS, LAYERS),)
    whole = Compression(method=method, ranks=ranks, gradient_bytes=MODEL, matrices=matrices, **options)
    return whole.exchange(nbytes)


def seconds(work: Any) -> float:
    """On the toy device, on which every kernel reaches its peak."""
    return sum(max(kernel.nbytes / MEMORY_BYTES_PER_S, kernel.flop / FLOP_PER_S) for kernel in work.kernels)


def exchange_seconds(exchange: CompressedExchange, ranks: int = RANKS) -> float:
    rounds = {"all_reduce": 2, "all_gather": 1}
    return sum(rounds[kind] * ring_seconds(nbytes, ranks) for kind, nbytes in exchange.collectives)


@pytest.mark.parametrize(
    ("method", "options"), every_second(METHODS, [{}, {"overlap": False}, {"bucket_size": "100 kB"}])
)
def test_it_conforms_with_every_compression(method: str, options: dict[str, Any]) -> None:
    check_framework(DDP, compression=method, **options)


@pytest.mark.parametrize("options", [{"static_graph": True}, {"static_graph": True, "compression": "fp16"}])
def test_it_conforms_with_a_static_graph(options: dict[str, Any]) -> None:
    check_framework(DDP, **options)


# --- volume -----------------------------------------------------------------------------------------------------

VOLUMES = {  # bytes that each of n ranks sends for a model of NBYTES a layer, over (n-1)/n
    "none": 2 * MODEL,
    "fp16": MODEL,
    "bf16": MODEL,
    "fp8": MODEL / 2,
    "powersgd": 2 * 4.0 * LAYERS * (ROWS + COLUMNS + VECTOR),
}


@each_case("micro_batches", [1, 3])
@each_case("bucket", ["3 MB", "1 GB"])
@each_case("ranks", [2, 4, 8])
@pytest.mark.parametrize("method", METHODS)
def test_every_rank_sends_what_the_compression_leaves(
    method: str, ranks: int, bucket: str, micro_batches: int
) -> None:
    volume = VOLUMES.get(method, 2 * 4.0 * ranks * 0.01 * MODEL / 4)  # of top-k, which is gathered: S(n-1)/n
    run = train(
        "high",
        "ddp",
        [[layer()] * LAYERS],
        Layout(data=ranks),
        micro_batches=micro_batches,
        bucket_size=bucket,
        compression=method,
    )
    expected = volume * (ranks - 1) / ranks
    assert run.platform.gpu_statistics()["sent_bytes"] == pytest.approx([expected] * ranks, rel=1e-12)


def exchanged(run: Run) -> list[tuple[str, float]]:
    """Kinds and bytes of the gradients' collectives, in order."""
    return [(op.kind, op.nbytes) for op, _, _ in run.log.operations if isinstance(op, Collective)]


@pytest.mark.parametrize("method", METHODS)
def test_the_levels_exchange_the_same(method: str) -> None:
    high, medium = (
        exchanged(train(level, "ddp", [[layer(1e-3)] * LAYERS], Layout(data=RANKS), compression=method))
        for level in ("high", "medium")
    )
    assert high == medium
    total = sum(nbytes for _, nbytes in high)
    assert total == pytest.approx(sum(nbytes for _, nbytes in compressed(method).collectives), rel=1e-12)


@pytest.mark.parametrize(("ratio", "smaller"), [(0.001, True), (0.2, False)])
def test_top_k_of_many_ranks_may_send_more_than_it_saves(ratio: float, smaller: bool) -> None:
    """8 bytes of n ranks against twice 4: break-even at a ratio of 1/n (Agarwal et al. 2022)."""
    plain, sparse = (
        train("high", "ddp", [[layer()] * LAYERS], Layout(data=8), **options).platform.gpu_statistics()["sent_bytes"][
            0
        ]
        for options in ({}, {"compression": "topk", "topk_ratio": ratio})
    )
    assert (sparse < plain) is smaller


# --- time -------------------------------------------------------------------------------------------------------


@both_levels
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("options", [{}, {"topk_ratio": 0.1, "powersgd_rank": 4}])
def test_without_overlap_a_step_is_the_sum_of_its_parts(level: str, method: str, options: dict[str, Any]) -> None:
    backward_s, optimizer_s = 1e-3, 2e-3
    run = train(
        level,
        "ddp",
        [[layer(backward_s)] * LAYERS],
        Layout(data=RANKS),
        optimizer=work_of(optimizer_s),
        overlap=False,
        compression=method,
        **options,
    )
    exchange = compressed(method, **options)
    parts = (LAYERS * backward_s, seconds(exchange.before), exchange_seconds(exchange), seconds(exchange.after))
    assert run.end_s == pytest.approx(sum(parts) + optimizer_s, rel=1e-12)


@both_levels
@pytest.mark.parametrize("method", COMPRESSED)
def test_compression_delays_the_backward_pass_and_exchanges_hide_behind_it(level: str, method: str) -> None:
    """A bucket for each layer: all but the last exchange are hidden, no computation is."""
    sizes = dict.fromkeys(("first_bucket_size", "bucket_size"), NBYTES)
    options = {name: f"{size:.0f} B" for name, size in sizes.items()}
    run = train(level, "ddp", [[layer(0.1)] * LAYERS], Layout(data=RANKS), compression=method, **options)
    bucket = compressed(method, nbytes=NBYTES)
    computing_s = LAYERS * (0.1 + seconds(bucket.before) + seconds(bucket.after))
    assert run.end_s == pytest.approx(computing_s + exchange_seconds(bucket), rel=1e-12)
    spans = run.log.spans(0, "decompress")
    assert len(spans) == LAYERS
    assert spans[0][0] >= max(end for _, end in run.log.spans(0, "backward"))


@pytest.mark.parametrize("method", COMPRESSED)
def test_a_bucket_is_compressed_just_before_it_is_sent(method: str) -> None:
    mine = [op for op in record(DDP, compression=method) if op["rank"] == 0]
    names = [op["name"] for op in mine]
    for index in [index for index, name in enumerate(names) if name == "compress"]:
        assert names[index + 1] == "gradients"
    last = max(index for index, name in enumerate(names) if name == "gradients")
    count = names.count("compress")
    assert names[last + 1 : last + 1 + count] == ["decompress"] * count
    assert names[last + 1 + count :] == ["optimizer"]


RUNS = [
    (Layout(data=4), "1f1b", 1, 1),
    (Layout(data=4), "1f1b", 1, 3),
    (Layout(tensor=2, data=4), "1f1b", 1, 2),
    (Layout(data=4, pipeline=2), "1f1b", 1, 4),
    (Layout(tensor=2, data=2, pipeline=2), "gpipe", 1, 3),
    (Layout(data=2, pipeline=2), "interleaved", 2, 4),
    (Layout(data=2, pipeline=2), "zb_h1", 1, 3),
]


@pytest.mark.parametrize(
    ("run", "method", "options"),
    every_second(RUNS, METHODS, [{}, {"overlap": False}, {"static_graph": True, "bucket_size": "2 MB"}]),
)
def test_the_levels_of_detail_agree(run: tuple[Layout, str, int, int], method: str, options: dict[str, Any]) -> None:
    """Times of computation, compression and communication are alike, so that what hides what changes."""
    layout, schedule, count, micro_batches = run

    def block(backward_s: float) -> Block:
        return layer(
            backward_s,
            forward_s=backward_s / 2,
            tensor_bytes=1e6 if layout.tensor > 1 else 0.0,
            split=schedule == "zb_h1",
        )

    blocks = [block(each) for each in (1e-5, 6e-4, 6e-4, 2e-3)]
    settings = {"micro_batches": micro_batches, "schedule": schedule, "steps": 3, "compression": method, **options}
    ends = [train(level, "ddp", [blocks] * count, layout, **settings).end_s for level in LEVELS]
    assert ends[0] == pytest.approx(ends[1], rel=1e-9)


# --- static graph -----------------------------------------------------------------------------------------------


def step_ends(level: str, steps: int, **options: Any) -> float:
    sizes = {"first_bucket_size": "4 MB", "bucket_size": "4 MB"}
    return train(level, "ddp", [[layer(1e-3)] * LAYERS], Layout(data=RANKS), steps=steps, **{**sizes, **options}).end_s


@both_levels
@pytest.mark.parametrize("method", ["none", "fp16"])
def test_the_first_iteration_of_a_static_graph_hides_nothing(level: str, method: str) -> None:
    """Its buckets are those of an overlapped step, sent after the backward pass (PyTorch: `delay_all_reduce`)."""
    buckets = [4e6] * int(MODEL // 4e6) + [MODEL % 4e6]
    exchanges = [compressed(method, nbytes=nbytes) for nbytes in buckets]
    work_s = sum(seconds(each.before) for each in exchanges[:1]) + sum(seconds(each.after) for each in exchanges)
    # Later buckets are compressed while the first is on its way.
    expected = LAYERS * 1e-3 + sum(exchange_seconds(each) for each in exchanges) + work_s
    assert step_ends(level, 1, static_graph=True, compression=method) == pytest.approx(expected, rel=1e-9)


@both_levels
@pytest.mark.parametrize("method", ["none", "powersgd"])
def test_later_iterations_of_a_static_graph_are_those_of_any_other(level: str, method: str) -> None:
    first, second, third = (step_ends(level, steps, static_graph=True, compression=method) for steps in (1, 2, 3))
    plain = step_ends(level, 1, compression=method)
    assert first > plain
    assert second - first == pytest.approx(plain, rel=1e-9)
    assert third - second == pytest.approx(plain, rel=1e-9)


# --- options and memory -----------------------------------------------------------------------------------------


def scenario(strategy: str = "DDP", tensor: int = 1, **options: Any) -> SimulationConfig:
    return SimulationConfig(
        hardware={"profile": "dgx-h100"},
        model={"name": "GPT2-Small"},
        parallelism={"strategy": strategy, "tp_degree": tensor},
        training={"batch_size_per_gpu": 4, "options": options},
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compression": "fp15"}, "'fp15' is not one of none, fp16, bf16, fp8, topk, powersgd, did you mean 'fp16'"),
        ({"topk_ratio": 0.0}, "must be above 0, not 0.0"),
        ({"topk_ratio": 1.5}, "must be at most 1, not 1.5"),
        ({"powersgd_rank": 0}, "must be above 0, not 0"),
        ({"static_graph": "perhaps"}, "true or false is needed, not 'perhaps'"),
    ],
)
def test_bad_options_are_refused_in_words(options: dict[str, Any], message: str) -> None:
    (problem,) = check_config(scenario(**options))
    assert message in str(problem)
    assert f"training.options.{next(iter(options))}" in str(problem)


@pytest.mark.parametrize("strategy", ["ZERO1", "ZERO2"])
@pytest.mark.parametrize("option", ["compression", "static_graph", "gradient_as_bucket_view", "powersgd_rank"])
def test_sharded_optimizers_offer_buckets_only(strategy: str, option: str) -> None:
    (problem,) = check_config(scenario(strategy, **{option: 1}))
    assert f"unknown key {option!r}" in str(problem)


@pytest.mark.parametrize(
    ("name", "options", "copies"),
    [
        ("none", {}, 0),
        ("ddp", {}, 0),
        ("ddp", {"gradient_as_bucket_view": False}, 1),
        ("ddp", {"compression": "bf16"}, 0),
        ("ddp", {"compression": "powersgd"}, 1),  # the error that is fed back
        ("ddp", {"compression": "topk", "gradient_as_bucket_view": False}, 2),
        ("zero1", {}, 0),
        ("zero2", {"bucket_size": "10 MB"}, 0.2),
        ("zero2", {"bucket_size": "60 MB"}, 1),
        ("zero2", {"overlap": False}, 1),
        ("fsdp", {}, 0),
    ],
)
def test_what_the_exchange_holds_besides_the_gradients(name: str, options: dict[str, Any], copies: float) -> None:
    module = FRAMEWORKS.get(name, DataParallel)
    assert module.buffer_bytes(module.Options(**options), 100e6) == pytest.approx(copies * 100e6)


@pytest.mark.parametrize(("strategy", "tensor"), [("DDP", 1), ("TP_DDP", 2)])
def test_power_sgd_finds_the_matrices_of_a_model(strategy: str, tensor: int) -> None:
    """At rank 1, GPT-2 small shrinks several hundred times, but for its biases and norms."""
    ((plan,),) = build_job(scenario(strategy, tensor)).plans
    matrices = tuple(matrix for block in plan.blocks for matrix in block.matrices)
    whole = Compression(method="powersgd", ranks=8, gradient_bytes=plan.gradient_bytes, matrices=matrices)
    sent = [nbytes for _, nbytes in whole.exchange(plan.gradient_bytes).collectives]
    assert len(sent) == 3
    assert 100 < plan.gradient_bytes / sum(sent) < 400


@pytest.mark.parametrize("method", METHODS)
def test_a_scenario_with_compression_is_the_same_at_both_levels(method: str) -> None:
    high, medium = (
        simulate(scenario(compression=method).model_copy(update={"simulation": SimulationSettings(lod=level)}))
        for level in LEVELS
    )
    assert high.metrics["mean_iteration_s"] == pytest.approx(medium.metrics["mean_iteration_s"], rel=1e-9)
