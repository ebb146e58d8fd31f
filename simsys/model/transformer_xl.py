"""Transformer-XL: attention to the segment before as well, by relative positions, and an adaptive softmax.

Dai et al. 2019 ("Transformer-XL: Attentive Language Models beyond a Fixed-Length Context", arXiv 1901.02860), §3.2 and
3.3; Grave et al. 2017 ("Efficient softmax approximation for GPUs", arXiv 1609.04309).
"""

from __future__ import annotations

from dataclasses import replace

from simsys.model.model import Block, Model
from simsys.model.operators import Operator, OperatorKind

SEGMENTS = 2.0
"""Own tokens and the same number of tokens of the previous segment, with recomputed keys and values."""
SCORE_PRODUCTS = 1.5
"""Queries are multiplied by keys and by positions, and weights by values: three products in place of two."""
ADAPTIVE = 0.115
"""Columns of the head that a token meets on average:

the 20,000 most frequent of 267,735 words, and for one token in eight, the rarer words of its cluster.
"""


def with_segment_memory(model: Model) -> Model:
    """The decoder `model` with Transformer-XL's attention and head."""
    made = {id(block): _with_segment_memory(block) for block in model.blocks}
    return replace(model, blocks=tuple(made[id(block)] for block in model.blocks))


def _with_segment_memory(block: Block) -> Block:
    return replace(block, operators=tuple(_changed(operator) for operator in block.operators))


def _changed(operator: Operator) -> Operator:
    if operator.kind is OperatorKind.ATTENTION:
        return replace(
            operator,
            flop_per_pair=operator.flop_per_pair * SEGMENTS * SCORE_PRODUCTS,
            elements_per_pair=operator.elements_per_pair * SEGMENTS * SCORE_PRODUCTS,
            kept_elements_per_pair=operator.kept_elements_per_pair * SEGMENTS,
        )
    if operator.name == "qkv":
        share = (1.0 + 2.0 * SEGMENTS) / 3.0
        return replace(operator, flop_per_token=operator.flop_per_token * share)
    if operator.is_head:
        return replace(
            operator,
            flop_per_token=operator.flop_per_token * ADAPTIVE,
            elements_per_token=operator.elements_per_token * ADAPTIVE,
        )
    return operator
