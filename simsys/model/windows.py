"""Windows: the cost of attention if queries attend only to the last tokens, or to a number of chosen ones.

A pass is costed by sums over its sequences, without their lengths. The cost of attention in windows is therefore its
mean over the lengths of a workload: exact in training, where all sequences have the same length, and where no sequence
is longer than the window.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil

from simsys.model.batch import attention_pairs
from simsys.model.model import Model
from simsys.model.operators import Operator, OperatorKind, Split
from simsys.model.transformer_operators import memory

STATE_CHUNK_TOKENS = 64
"""Tokens of a chunk of linear attention, which reads and writes the state once (``chunk_gated_delta_rule`` of
flash-linear-attention)."""


@dataclass(frozen=True, slots=True)
class WindowUse:
    """Mean use of a window by the queries of a serving workload.

    Args:
        tokens_per_query: Keys that a query attends to, over all tokens of prompts and answers.
        tokens_held: Tokens that a decoding sequence keeps and reads in each step.
    """

    tokens_per_query: float
    tokens_held: float


def pairs_in_window(tokens: float, window: int, block: int = 1) -> float:
    """Return the query-key pairs of a sequence whose tokens attend to the last `window` tokens, themselves included.

    Kernels compute whole blocks of queries and keys; those without any pair in the window are skipped.

    Example:
        >>> pairs_in_window(4, 2), pairs_in_window(4, 8), pairs_in_window(8, 2, block=2)
        (7.0, 10.0, 28.0)
    """
    side = min(float(block), tokens)
    seen = min(tokens, side * (1 + ceil((window - 1) / side)))  # keys of the blocks that a block of queries reads
    return attention_pairs(seen, block=block) + (tokens - seen) * seen


def has_windows(model: Model) -> bool:
    """Whether a model has layers with sliding windows."""
    return any(operator.window for block in model.kinds_of_blocks for operator in block.operators)


def in_training(model: Model, sequence_length: int, *, fused: bool, block: int = 1) -> Model:
    """Return the model with the cost of its windows in training on sequences of one length.

    Args:
        model: The model.
        sequence_length: Tokens of a sequence.
        fused: Whether attention skips pairs outside of windows; unfused attention computes and masks them.
        block: Tokens of the blocks that it computes or skips as a whole.
    """

    def trained(operator: Operator) -> Operator:
        if operator.elements_per_sequence:  # a state, which training keeps within a chunk
            return replace(operator, elements_per_token=operator.elements_per_token / STATE_CHUNK_TOKENS)
        if not operator.window:
            return operator
        seen = operator.window if fused else sequence_length
        share = pairs_in_window(sequence_length, seen, block) / attention_pairs(sequence_length, block=block)
        return _scaled(operator, share)

    return model.with_operators(trained)


def in_serving(model: Model, use: Callable[[int], WindowUse | None], kv_element_ratio: float = 1.0) -> Model:
    """Return the model with the mean cost of its windows in serving a workload.

    Args:
        model: The model.
        use: Returns the use of a window of a number of tokens; None if no sequence is longer.
        kv_element_ratio: Bytes of an element of the KV cache over those of an activation.
    """

    def served(operator: Operator) -> Operator:
        if not operator.window:
            return operator
        found = use(operator.window)
        if found is None:
            return replace(operator, window=0)
        if operator.kind is OperatorKind.ATTENTION:
            return replace(
                operator,
                flop_per_token=operator.flop_per_token + operator.flop_per_pair * found.tokens_per_query,
                flop_per_pair=0.0,
                elements_per_context_token=0.0,
                window=0,
            )
        cached = operator.elements_per_context_token * kv_element_ratio
        if operator.chosen:
            return replace(
                memory(operator.name, cached * found.tokens_held, operator.split, per_logit=True),
                kind=OperatorKind.ATTENTION,
                flop_per_token=operator.flop_per_pair * found.tokens_held,
                scales=operator.scales,
            )
        read = memory("window_cache", cached * found.tokens_held, Split.HEADS, per_logit=True)
        return replace(read, elements_per_sequence=cached * found.tokens_held, scales=operator.scales)

    return model.with_operators(served)


def whole(window: int) -> WindowUse:
    """Return the use of a full window, as at the longest contexts."""
    return WindowUse(window, window)


def _scaled(operator: Operator, share: float) -> Operator:
    return replace(
        operator,
        flop_per_pair=operator.flop_per_pair * share,
        elements_per_pair=operator.elements_per_pair * share,
        kept_elements_per_pair=operator.kept_elements_per_pair * share,
        window=0,
    )
