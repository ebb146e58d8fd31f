"""Bytes of weights and caches in every precision, and what is computed in it."""

from __future__ import annotations

import pytest

from simsys.config.architectures import listed_architectures
from simsys.model.batch import Batch
from simsys.model.operators import Operator
from simsys.model.precision import KV_BYTES, WEIGHT_BYTES, serving_precision
from simsys.model.transformer import build_transformer
from simsys.model.work import Precision, kernel_of
from simsys.parallel.passes import forward_pass
from simsys.parallel.serving_memory import weight_bytes

BY_NAME = {architecture.name: architecture for architecture in listed_architectures()}
LLAMA = build_transformer(BY_NAME["Llama3-8B"])
OPERATORS = {operator.name: operator for block in LLAMA.blocks for operator in block.operators}
HEAD = TABLE = 128_256 * 4096
NORMS = 65 * 4096


def operator(name: str) -> Operator:
    return OPERATORS[name]


def test_group_wise_quantisation_adds_a_scale_of_16_bit_for_each_128_weights() -> None:
    assert WEIGHT_BYTES["int8"] == 1 + 2 / 128
    assert WEIGHT_BYTES["int4"] == 0.5 + 2 / 128
    assert KV_BYTES["int4"] == 0.5 + 4 / 128
    assert [WEIGHT_BYTES[name] for name in ("fp32", "fp16", "bf16", "fp8")] == [4, 2, 2, 1]


@pytest.mark.parametrize(
    ("weights", "compute", "each"),
    [
        ("fp8", "fp8", 1.0),
        ("fp8_block", "fp8_block", 1 + 4 / 128**2),
        ("int8", "weight_only", 1 + 2 / 128),
        ("int4", "weight_only", 0.5 + 2 / 128),
    ],
)
def test_only_linear_layers_are_quantised(weights: str, compute: str, each: float) -> None:
    precision = serving_precision(weights, "bf16", "bf16")
    linear = LLAMA.parameters - HEAD - TABLE - NORMS
    expected = linear * each + (HEAD + TABLE + NORMS) * 2
    assert weight_bytes(forward_pass(LLAMA), precision) == pytest.approx(expected)
    assert precision.dtype(operator("gate_up")) == compute
    assert precision.dtype(operator("lm_head")) == precision.dtype(operator("attention")) == "bf16"
    assert precision.activation_bytes == 2


@pytest.mark.parametrize(("weights", "size"), [("fp32", 4.0), ("fp16", 2.0), ("bf16", 2.0)])
def test_what_is_not_quantised_is_alike_everywhere(weights: str, size: float) -> None:
    precision = serving_precision(weights, weights, "bf16")
    assert precision == Precision(weights, size, size, size)
    assert weight_bytes(forward_pass(LLAMA), precision) == size * LLAMA.parameters


@pytest.mark.parametrize("weights", ["int8", "int4"])
def test_a_decode_step_reads_the_quantised_weights_and_computes_in_16_bit(weights: str) -> None:
    one = Batch(tokens=1, logits=1, decode_context_tokens=1000, decode_sequences=1)
    plain, small = serving_precision("bf16", "bf16", "bf16"), serving_precision(weights, "bf16", "bf16")
    before, after = (kernel_of(operator("gate_up"), one, precision) for precision in (plain, small))
    assert (before.flop, before.dtype) == (after.flop, "bf16")
    assert after.dtype == "weight_only"  # kernels of their own, in 16 bit
    assert before.nbytes - after.nbytes == pytest.approx(operator("gate_up").parameters * (2 - WEIGHT_BYTES[weights]))


@pytest.mark.parametrize("kv", ["fp8", "int8", "int4"])
def test_a_quantised_cache_is_read_in_fewer_bytes(kv: str) -> None:
    batch = Batch(tokens=8, logits=8, decode_context_tokens=8000, decode_sequences=8)
    kernel = kernel_of(operator("decode_attention"), batch, serving_precision("bf16", kv, "bf16"))
    assert kernel.nbytes == 8000 * 2 * 8 * 128 * KV_BYTES[kv]
    assert kernel.dtype == "bf16"
