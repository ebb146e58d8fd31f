"""Gradient compression as data: what is sent, and what the compression itself computes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from simsys.collectives.base import CollectiveKind
from simsys.model.cnn import build_resnet50
from simsys.model.model import Model
from simsys.model.operators import Operator, OperatorKind
from simsys.model.transformer import build_transformer, gpt_architecture
from simsys.model.work import Precision
from simsys.parallel.compression import CompressedExchange, Compression, weight_matrices
from simsys.parallel.passes import forward_pass
from simsys.parallel.plan import StepSettings, TrainingPlan
from simsys.parallel.training import training_plan
from simsys.platform.device_spec import kernel_seconds
from tests.helpers.toys import TOY

ROWS, COLUMNS, COUNT, VECTOR = 4096.0, 1024.0, 3, 6000
ELEMENTS = ROWS * COLUMNS * COUNT + VECTOR
NBYTES = 4.0 * ELEMENTS
RANKS = 8


def compressed(method: Any, nbytes: float = NBYTES, **options: Any) -> CompressedExchange:
    """Three matrices and a vector, compressed."""
    given: dict[str, Any] = {"ranks": RANKS, "gradient_bytes": NBYTES, "matrices": ((ROWS, COLUMNS, COUNT),)}
    return Compression(method=method, **{**given, **options}).exchange(nbytes)


def sent(exchange: CompressedExchange) -> float:
    """Bytes of all buffers."""
    return sum(nbytes for _, nbytes in exchange.collectives)


def test_without_compression_the_gradients_are_all_reduced_as_they_are() -> None:
    exchange = compressed("none")
    assert exchange.collectives == ((CollectiveKind.ALL_REDUCE, NBYTES),)
    assert not exchange.before.kernels
    assert not exchange.after.kernels


@pytest.mark.parametrize(("method", "nbytes_each"), [("fp16", 2.0), ("bf16", 2.0), ("fp8", 1.0)])
def test_a_cast_reads_one_type_and_writes_the_other(method: str, nbytes_each: float) -> None:
    exchange = compressed(method)
    assert exchange.collectives == ((CollectiveKind.ALL_REDUCE, nbytes_each * ELEMENTS),)
    assert exchange.before.nbytes == exchange.after.nbytes == (4.0 + nbytes_each) * ELEMENTS
    assert exchange.before.flop == 0.0


@pytest.mark.parametrize("ranks", [2, 16])
@pytest.mark.parametrize("ratio", [0.001, 0.01, 1.0])
def test_top_k_gathers_values_and_indices_of_all_ranks(ranks: int, ratio: float) -> None:
    exchange = compressed("topk", ranks=ranks, topk_ratio=ratio)
    each = (CollectiveKind.ALL_GATHER, pytest.approx(4.0 * ranks * ratio * ELEMENTS))
    assert list(exchange.collectives) == [each, each]


def test_top_k_passes_over_the_gradients_several_times_whatever_it_chooses() -> None:
    """Error feedback 3, magnitudes 2, four digits of 8 bits and the gathering 5; afterwards zeroes."""
    few = compressed("topk", topk_ratio=1e-9)
    assert few.before.nbytes == pytest.approx(10 * NBYTES)
    assert few.after.nbytes == pytest.approx(NBYTES)


def test_top_k_adds_up_what_every_rank_has_chosen() -> None:
    one, many = (compressed("topk", ranks=ranks, topk_ratio=0.01).after.nbytes for ranks in (1, 101))
    assert many - one == pytest.approx(100 * 16 * 0.01 * ELEMENTS)


@pytest.mark.parametrize("rank", [1, 4, 32])
def test_power_sgd_sends_two_thin_matrices_for_each_and_vectors_as_they_are(rank: int) -> None:
    """Vogels et al. 2019, alg. 1: r·(n + m) values for n·m."""
    exchange = compressed("powersgd", powersgd_rank=rank)
    assert [kind for kind, _ in exchange.collectives] == [CollectiveKind.ALL_REDUCE] * 3
    thin = [4.0 * COUNT * rank * size for size in (ROWS, COLUMNS)]
    assert [nbytes for _, nbytes in exchange.collectives] == pytest.approx([4.0 * VECTOR, *thin], rel=1e-12)


@pytest.mark.parametrize("rank", [1, 4])
def test_power_sgd_multiplies_each_matrix_three_times(rank: int) -> None:
    exchange = compressed("powersgd", powersgd_rank=rank)
    product = 2.0 * COUNT * ROWS * COLUMNS * rank
    assert exchange.before.flop == pytest.approx(2 * product)
    assert exchange.after.flop == pytest.approx(product)
    gemms = [k for k in (*exchange.before.kernels, *exchange.after.kernels) if k.kind is OperatorKind.GEMM]
    assert [(k.rows, k.columns, k.inner) for k in gemms] == [
        (rank, ROWS, COLUMNS),
        (rank, COLUMNS, ROWS),
        (ROWS, COLUMNS, rank),
    ]
    assert {k.dtype for k in gemms} == {"fp32"}


def test_power_sgd_moves_what_its_steps_read_and_write() -> None:
    """By hand, of rank 1, in fp32 values: M (n·m) read twice and written once, P and Q read or written six times."""
    exchange = compressed("powersgd")
    matrices, thin = COUNT * ROWS * COLUMNS, COUNT * (ROWS + COLUMNS)
    feedback_before, feedback_after, packing = 5 * ELEMENTS, 3 * ELEMENTS, 2 * VECTOR
    orthonormal = 3 * thin
    assert exchange.before.nbytes == pytest.approx(
        4 * (feedback_before + packing + 2 * matrices + 2 * thin + orthonormal)
    )
    assert exchange.after.nbytes == pytest.approx(4 * (matrices + thin + packing + feedback_after))


def test_a_low_rank_is_bound_by_bandwidth() -> None:
    """So the cost of rank 1 is that of reading the matrices, not of arithmetic."""
    (left, *_) = [k for k in compressed("powersgd").before.kernels if k.kind is OperatorKind.GEMM]
    assert kernel_seconds(TOY, left) == pytest.approx(left.nbytes / TOY.memory_bytes_per_s)


@pytest.mark.parametrize(
    ("matrices", "rank"),
    [
        ((), 1),  # vectors only
        (((4.0, 4.0, 2),), 1),  # 16 values against 2 · 8: no gain
        (((ROWS, COLUMNS, COUNT),), 512),  # half of them
    ],
)
def test_what_would_hardly_shrink_is_sent_as_it_is(matrices: Any, rank: int) -> None:
    exchange = compressed("powersgd", matrices=matrices, powersgd_rank=rank)
    assert exchange.collectives == ((CollectiveKind.ALL_REDUCE, NBYTES),)
    assert exchange.before.flop == exchange.after.flop == 0.0


def test_matrices_without_anything_else_leave_no_empty_exchange() -> None:
    whole = 4.0 * ROWS * COLUMNS * COUNT
    exchange = compressed("powersgd", whole, gradient_bytes=whole)
    assert len(exchange.collectives) == 2


@pytest.mark.parametrize("method", ["none", "fp16", "bf16", "fp8", "topk", "powersgd"])
def test_buckets_cost_their_share_of_the_whole(method: str) -> None:
    whole = compressed(method)
    buckets = [compressed(method, share * NBYTES) for share in (0.1, 0.25, 0.65)]
    assert sum(sent(bucket) for bucket in buckets) == pytest.approx(sent(whole), rel=1e-12)
    for amount in ("before", "after"):
        parts = [getattr(bucket, amount) for bucket in buckets]
        assert sum(part.nbytes for part in parts) == pytest.approx(getattr(whole, amount).nbytes, rel=1e-12)
        assert sum(part.flop for part in parts) == pytest.approx(getattr(whole, amount).flop, rel=1e-12)


# --- which weights are matrices ---------------------------------------------------------------------------------

HIDDEN, LAYERS, VOCABULARY = 64, 2, 250
ARCHITECTURE = gpt_architecture(
    "toy", num_layers=LAYERS, hidden_size=HIDDEN, num_attention_heads=4, vocab_size=VOCABULARY, max_context_tokens=32
)
TIED = build_transformer(ARCHITECTURE)
UNTIED = build_transformer(replace(ARCHITECTURE, tied_embeddings=False))


def plan_of(model: Model, tensor: int = 1) -> TrainingPlan:
    batch = model.training_batch(2, 16 if model.vocab_size else 1)
    tied = model.tied_parameters / tensor
    return training_plan(
        [forward_pass(model, tensor)], batch, StepSettings(precision=Precision()), tied_parameters=tied, tensor=tensor
    )


def elements(plan: TrainingPlan) -> float:
    return sum(rows * columns * count for block in plan.blocks for rows, columns, count in block.matrices)


def test_the_matrices_of_a_layer_are_its_products() -> None:
    layer = plan_of(TIED).blocks[1]
    assert layer.matrices == (
        (3.0 * HIDDEN, HIDDEN, 1),
        (HIDDEN, HIDDEN, 1),
        (4.0 * HIDDEN, HIDDEN, 1),
        (HIDDEN, 4.0 * HIDDEN, 1),
    )


def test_an_embedding_is_a_matrix_and_a_tied_head_none() -> None:
    tied, untied = plan_of(TIED).blocks, plan_of(UNTIED).blocks
    assert tied[0].matrices == untied[0].matrices == ((VOCABULARY + 32.0, HIDDEN, 1),)
    assert tied[-1].matrices == ()
    assert untied[-1].matrices == ((float(VOCABULARY), HIDDEN, 1),)


@pytest.mark.parametrize(
    ("model", "tensor"),
    [(TIED, 1), (TIED, 4), (UNTIED, 1), (UNTIED, 4), (build_resnet50(), 1)],
    ids=["tied", "tied-tensor", "untied", "untied-tensor", "cnn"],
)
def test_what_is_no_matrix_is_a_small_part(model: Model, tensor: int) -> None:
    """Also where tensor parallelism pads the vocabulary: 250 rows on four ranks."""
    plan = plan_of(model, tensor)
    parameters = plan.gradient_bytes / 4.0
    assert 0.95 * parameters < elements(plan) < parameters


@pytest.mark.parametrize("held", [2, 8])
def test_experts_are_matrices_of_their_own(held: int) -> None:
    """As many as a rank holds, however many there are to route to."""
    expert = Operator(
        "experts_up",
        OperatorKind.GEMM,
        parameters=held * 32.0 * 16,
        columns=32,
        inner=16,
        experts=8,
        experts_per_token=2,
    )
    assert list(weight_matrices([expert], 16.0)) == [(32.0, 16.0, held)]
