"""Operators that the parts of a transformer are made of."""

from __future__ import annotations

from simsys.model.operators import Operator, OperatorKind, Split
from simsys.model.transformer_architecture import TransformerArchitecture


def gemm(
    name: str, inner: int, columns: int, split: Split, *, bias: bool = False, per_logit: bool = False
) -> Operator:
    """A product (tokens × inner)·(inner × columns): 2·inner·columns FLOP a token."""
    return Operator(
        name,
        OperatorKind.GEMM,
        split,
        parameters=float(inner * columns + (columns if bias else 0)),
        columns=columns,
        inner=inner,
        flop_per_token=2.0 * inner * columns,
        elements_per_token=float(inner + columns),
        per_logit=per_logit,
    )


def memory(
    name: str, elements: float, split: Split = Split.REPLICATED, *, parameters: int = 0, per_logit: bool = False
) -> Operator:
    """An operator bound by bandwidth that moves `elements` a token."""
    kind = OperatorKind.MEMORY
    return Operator(name, kind, split, float(parameters), elements_per_token=float(elements), per_logit=per_logit)


def score_elements(a: TransformerArchitecture) -> tuple[float, float]:
    """Elements of scores for each query-key pair, if attention is not fused: (read and written, kept).

    Forward, scores, their softmax and, with dropout, its output and mask (1 byte, only written) are each written and
    read: 6.5 elements, or 4. Backward, the product with the values' gradients, dropout, softmax and the two products
    that yield the gradients of queries and keys read and write 9.5, or 7. As a backward pass counts twice what a
    forward pass moves, a third of both together counts here. Kept are the softmax output and, with dropout, its mask
    and output: 5 bytes a head (Korthikanti et al. 2022, §4.1).
    """
    moved, kept = (16.0 / 3.0, 2.5) if a.dropout else (11.0 / 3.0, 1.0)
    return moved * a.num_attention_heads, kept * a.num_attention_heads


def norm(a: TransformerArchitecture, name: str, *, per_logit: bool = False) -> Operator:
    """A norm with the residual addition fused: reads input and residual, writes their sum and its norm."""
    h = a.hidden_size
    return memory(name, 4 * h, parameters=2 * h if a.biases else h, per_logit=per_logit)
