"""Linear attention, whose state does not grow with the context, and the projections of all kinds of attention.

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
