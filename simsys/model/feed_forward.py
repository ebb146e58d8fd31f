"""Feed-forward parts of a layer: a dense MLP, or a mixture of experts with its router.

With a latent size (LatentMoE: NVIDIA 2025, Nemotron 3 white paper), tokens are projected down before they are sent to
the routed experts, and their results up again; the router and shared experts work on the hidden states.
"""

from __future__ import annotations

from dataclasses import replace

from simsys.model.operators import Operator, OperatorKind, Split
from simsys.model.transformer_architecture import TransformerArchitecture
from simsys.model.transformer_operators import gemm, memory

# Of each grouped product (top-k, sorting, gathering, quantising, the product, scattering). Fitted, not counted: the
# host time of prompts on engines without CUDA graphs for them, over that of dense layers (ai-dynamo/aiconfigurator
# silicon samples at up to 16 requests).
ROUTED_LAUNCHES = 9


def mlp_operators(a: TransformerArchitecture, prefix: str, width: int) -> tuple[Operator, ...]:
    """The operators of a dense MLP of a width."""
    h, wide = a.hidden_size, 2 * width if a.gated_mlp else width
    return (
        gemm(f"{prefix}{'gate_up' if a.gated_mlp else 'up'}", h, wide, Split.COLUMN, bias=a.biases),
        memory(f"{prefix}activation", wide + width, Split.COLUMN),
        gemm(f"{prefix}down", width, h, Split.ROW, bias=a.biases),
    )


def moe_operators(a: TransformerArchitecture) -> tuple[Operator, ...]:
    """The operators of a mixture of experts."""
    h, width, k = a.hidden_size, a.expert_intermediate_size, a.experts_per_token
    wide, sent = 2 * width if a.gated_mlp else width, expert_input_size(a)
    shared = mlp_operators(a, "shared_", a.shared_experts * width) if a.shared_experts else ()
    activation = memory("experts_activation", (wide + width) * k, Split.COLUMN)
    down, up = [], []
    if a.expert_latent_size:
        down = [gemm("latent_down", h, sent, Split.REPLICATED)]
        up = [gemm("latent_up", sent, h, Split.REPLICATED)]
    return (
        gemm("router", h, a.experts, Split.REPLICATED),
        *shared,
        *down,
        # Each token is copied to its k experts' inputs, in the precision of these, and their outputs are summed up.
        memory("experts_permutation", (3 * k + 2) * sent),
        _routed(a, f"experts_{'gate_up' if a.gated_mlp else 'up'}", sent, wide, Split.COLUMN),
        replace(activation, experts=a.experts, experts_per_token=k),
        _routed(a, "experts_down", width, sent, Split.ROW),
        *up,
    )


def is_of_experts(operator: Operator) -> bool:
    """Whether it is an element-wise kernel over the copies of tokens that are sent to routed experts."""
    return operator.kind is OperatorKind.MEMORY and operator.name.startswith("experts_")


def expert_input_size(a: TransformerArchitecture) -> int:
    """Elements of a token that is sent to a routed expert."""
    return a.expert_latent_size or a.hidden_size


def feed_forward_elements(a: TransformerArchitecture, *, moe: bool) -> tuple[float, float, float]:
    """Elements of 2 bytes that the feed-forward part keeps for its backward pass, without its norm and input.

    The MLP keeps the input and the output of its activation (2 × width; gated: gate, up and their product, 3 × width).
    Experts keep, for each of the k copies of a token, input and output, and the router its logits.

    Returns: Elements divided by tensor parallelism, replicated elements, and the part of both of routed experts.
    """
    kept_per_width = 3 if a.gated_mlp else 2
    if not moe:
        return float(kept_per_width * a.intermediate_size), 0.0, 0.0
    k, sent = a.experts_per_token, expert_input_size(a)
    in_experts = kept_per_width * k * a.expert_intermediate_size
    shared = kept_per_width * a.shared_experts * a.expert_intermediate_size
    replicated = 2.0 * k * sent + a.experts + 2.0 * a.expert_latent_size
    return float(in_experts + shared), replicated, in_experts + 2.0 * k * sent


def _routed(a: TransformerArchitecture, name: str, inner: int, columns: int, split: Split) -> Operator:
    """Return the operators for routed experts: each token makes `experts_per_token` rows."""
    k = a.experts_per_token
    return Operator(
        name,
        OperatorKind.GEMM,
        split,
        parameters=float(a.experts * inner * columns),
        rows_per_token=float(k),
        columns=columns,
        inner=inner,
        flop_per_token=2.0 * inner * columns * k,
        elements_per_token=float((inner + columns) * k),
        experts=a.experts,
        experts_per_token=k,
        launches=ROUTED_LAUNCHES,
    )
