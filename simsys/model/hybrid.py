"""Hybrids of Mamba-2 and attention with one mixer in each layer (Nemotron-H: NVIDIA 2025, arXiv 2504.03624).

A layer is a norm and one of: a Mamba-2 mixer (Dao & Gu 2024, "Transformers are SSMs", arXiv 2405.21060), attention, an
MLP, or a mixture of experts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from simsys.model.feed_forward import feed_forward_elements, mlp_operators, moe_operators
from simsys.model.mixed_attention import STATE_ELEMENTS
from simsys.model.model import Block
from simsys.model.operators import Operator, OperatorKind, Split
from simsys.model.transformer_architecture import TransformerArchitecture
from simsys.model.transformer_operators import gemm, memory, norm

CHUNK_TOKENS = 128
"""Tokens of a chunk of the state-space scan (``chunk_size`` of Nemotron-H's config.json)."""
SCAN_LAUNCHES = 8
"""Kernels of the scan with its convolution (mamba_ssm, ops/triton/ssd_combined.py: five kernels), gate and norm."""


def hybrid_layers(a: TransformerArchitecture, attention: tuple[Operator, ...]) -> list[Block]:
    """Return the layers, equal ones in a row; the time of a pass does not depend on their order.

    Args:
        a: The architecture.
        attention: The operators of attention.
    """
    moe = a.experts > 1
    mlp = moe_operators(a) if moe else mlp_operators(a, "", a.intermediate_size)
    in_mlp, routers, routed = feed_forward_elements(a, moe=moe)
    kept = 2.0 * (a.num_attention_heads + a.num_key_value_heads) * a.head_size
    return [
        *[_layer(a, "mamba_layer", mamba_operators(a), _mamba_elements(a))] * a.mamba_layers,
        *[_layer(a, "attention_layer", attention, kept)] * a.full_attention_layers,
        *[_layer(a, "moe_layer" if moe else "mlp_layer", mlp, in_mlp, routers, routed)] * a.mlp_layers,
    ]


def mamba_operators(a: TransformerArchitecture) -> tuple[Operator, ...]:
    """The operators of a Mamba-2 mixer.

    In chunks of Q tokens (Dao & Gu 2024, §6), a token of a head of width P with a state of N elements an element takes
    2·Q·P FLOP for the products within its chunk and 4·N·P for the state; the scores of a chunk, 2·Q·N, are computed
    once for each group of heads. The states of chunks, H·P·N numbers in 32 bit, are written, passed on from chunk to
    chunk, which reads and writes them, and read, by kernels that also read their inputs twice (mamba_ssm,
    ops/triton/ssd_combined.py). A decoding sequence reads and writes its whole state.
    """
    wide, groups = a.mamba_heads * a.mamba_head_size, a.mamba_groups * a.mamba_state_size
    state = wide * a.mamba_state_size
    scanned = 3 * wide + 4 * groups + 4 * STATE_ELEMENTS * state / CHUNK_TOKENS
    scan = Operator(
        "state_space_scan",
        OperatorKind.ATTENTION,
        Split.HEADS,
        flop_per_token=2.0 * CHUNK_TOKENS * (wide + groups) + 4.0 * state,
        elements_per_token=float(2 * wide + 2 * groups),
        launches=SCAN_LAUNCHES,
    )
    return (
        gemm("mamba_in", a.hidden_size, 2 * wide + 2 * groups + a.mamba_heads, Split.COLUMN),
        memory("short_convolution", 2 * (wide + 2 * groups), Split.HEADS, parameters=5 * (wide + 2 * groups)),
        scan,
        memory("scan_states", scanned, Split.HEADS),
        replace(
            memory("mamba_state", 2 * STATE_ELEMENTS * state, Split.HEADS, per_logit=True),
            elements_per_sequence=STATE_ELEMENTS * state,
        ),
        memory("gated_norm", 3 * wide, Split.HEADS, parameters=wide + 3 * a.mamba_heads),
        gemm("mamba_out", wide, a.hidden_size, Split.ROW),
    )


def _mamba_elements(a: TransformerArchitecture) -> float:
    """Elements that a mixer keeps for its backward pass: its projections, the convolution, the scan and the norm."""
    wide, groups = a.mamba_heads * a.mamba_head_size, a.mamba_groups * a.mamba_state_size
    return float(5 * wide + 4 * groups + a.mamba_heads)


def _layer(
    a: TransformerArchitecture,
    name: str,
    operators: Sequence[Operator],
    divided: float,
    replicated: float = 0.0,
    routed: float = 0.0,
) -> Block:
    whole = 2.0 * a.hidden_size + replicated  # input and output of the norm
    return Block(
        name,
        (norm(a, "mixer_norm"), *operators),
        spread=True,
        output_elements_per_token=float(a.hidden_size),
        activation_elements_per_token=divided + whole,
        replicated_activation_elements_per_token=whole,
        routed_activation_elements_per_token=routed,
    )
