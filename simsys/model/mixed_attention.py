"""Linear attention, whose state does not grow, the indexer of sparse attention, and projections of all kinds.

The state that a decoding sequence reads does not depend on the context, so it is counted per sequence: per token that
goes through the head.
"""

from __future__ import annotations

from dataclasses import replace

from simsys.model.operators import Operator, OperatorKind, Split
from simsys.model.transformer_architecture import TransformerArchitecture
from simsys.model.transformer_operators import gemm, memory

STATE_ELEMENTS = 2.0
"""16-bit elements per number of the state, which is stored in 32 bit."""

FP8_SPEED = 2.0
"""Speed of products in fp8 relative to 16 bit. The indexer computes in fp8 whatever the precision of the model."""

CHUNK_LAUNCHES = 24
"""Kernels of the chunked delta rule; assumed to be as many as of latent attention."""


def projections(a: TransformerArchitecture) -> list[Operator]:
    """Return the projections: queries, keys, values, with norms and output gate if there are any."""
    q, kv = a.num_attention_heads * a.head_size, a.num_key_value_heads * a.head_size
    gate = q if a.gated_attention else 0
    operators = [gemm("qkv", a.hidden_size, q + 2 * kv + gate, Split.COLUMN, bias=a.biases or a.qkv_biases)]
    if a.qk_norms:
        operators.append(memory("qk_norm", 2 * (q + kv), Split.HEADS, parameters=2 * a.head_size))
    return operators


def linear_attention(a: TransformerArchitecture) -> tuple[Operator, ...]:
    """Gated delta rule (Yang et al. 2024, arXiv 2412.06464): a state of key width × value width for each value head.

    A token updates it and reads it: 6 FLOP for each number of the state, in prompts chunk by chunk. A decoding
    sequence reads and writes all of it in every step.
    """
    keys, values = a.linear_key_heads * a.linear_head_size, a.linear_value_heads * a.linear_head_size
    state = values * a.linear_head_size
    return (
        gemm("qkvz", a.hidden_size, 2 * keys + 2 * values, Split.COLUMN),
        memory("short_convolution", 2 * (2 * keys + values), Split.HEADS),
        Operator(
            "delta_rule",
            OperatorKind.ATTENTION,
            Split.HEADS,
            flop_per_token=6.0 * state,
            elements_per_token=2.0 * keys + 2.0 * values,
            launches=CHUNK_LAUNCHES,
        ),
        replace(
            memory("linear_state", 2 * STATE_ELEMENTS * state, Split.HEADS, per_logit=True),
            elements_per_sequence=STATE_ELEMENTS * state,
        ),
        gemm("linear_attention_output", values, a.hidden_size, Split.ROW),
    )


def indexer(a: TransformerArchitecture) -> list[Operator]:
    """The lightning indexer of DeepSeek sparse attention, which every rank computes whole.

    A query of `index_heads` heads scores the indexer's key of every token before it, and attention reads the tokens
    with the highest scores (DeepSeek-AI 2025, DeepSeek-V3.2, §2.1).
    """
    width, pair = a.index_heads * a.index_head_size, 2.0 * a.index_heads * a.index_head_size / FP8_SPEED
    key = float(a.index_head_size)
    return [
        gemm("index_query", a.q_lora_rank or a.hidden_size, width, Split.REPLICATED),
        gemm("index_key", a.hidden_size, a.index_head_size + a.index_heads, Split.REPLICATED),
        Operator(
            "index_scores",
            OperatorKind.ATTENTION,
            elements_per_token=width + key,
            flop_per_pair=pair,
            elements_per_context_token=key,
        ),
        Operator(
            "index_decode_scores",
            OperatorKind.DECODE_ATTENTION,
            flop_per_pair=pair,
            elements_per_context_token=key,
        ),
    ]
