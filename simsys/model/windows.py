"""Sliding windows: what is left of attention when queries attend to the last tokens alone.

A pass is costed by sums over its sequences, which do not say how long each of them is. So attention within windows is
turned into what it takes on average over the lengths of a workload: exact in training, where all sequences have the
same length, and where no sequence is longer than the window.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from simsys.model.model import Model
from simsys.model.operators import Operator, OperatorKind, Split
from simsys.model.transformer_operators import memory

STATE_CHUNK_TOKENS = 64
"""Tokens of a chunk of linear attention, which reads and writes the state once (``chunk_gated_delta_rule`` of
flash-linear-attention)."""


@dataclass(frozen=True, slots=True)
class WindowUse:
    """What the queries of a serving workload find in a window, on average.

    Args:
        tokens_per_query: Keys that a query attends to, over all tokens of prompts and answers.
        tokens_held: Tokens that a decoding sequence keeps, all of which it reads in a step.
    """

    tokens_per_query: float
    tokens_held: float


def pairs_in_window(tokens: float, window: int) -> float:
    """Query-key pairs of a sequence in which each token attends to the last `window` tokens, its own included.

    Example:
        >>> pairs_in_window(4, 2), pairs_in_window(4, 8)
        (7.0, 10.0)
    """
    inside = min(tokens, float(window))
    return inside * (inside + 1) / 2 + (tokens - inside) * window


def has_windows(model: Model) -> bool:
    """Whether some of the model's attention is limited to windows."""
    return any(operator.window for block in model.kinds_of_blocks for operator in block.operators)


def in_training(model: Model, sequence_length: int, *, fused: bool) -> Model:
    """The model as it is trained on sequences of one length.

    Args:
        model: The model.
        sequence_length: Tokens of a sequence.
        fused: Whether attention leaves out what a window hides; unfused attention computes and masks it.
    """

    def trained(operator: Operator) -> Operator:
        if operator.elements_per_sequence:  # a state, which training keeps within a chunk
            return replace(operator, elements_per_token=operator.elements_per_token / STATE_CHUNK_TOKENS)
        if not operator.window:
            return operator
        seen = operator.window if fused else sequence_length
        share = pairs_in_window(sequence_length, seen) / pairs_in_window(sequence_length, sequence_length)
        return _scaled(operator, share)

    return model.with_operators(trained)


def in_serving(model: Model, use: Callable[[int], WindowUse | None], kv_element_ratio: float = 1.0) -> Model:
    """The model as it serves a workload.

    Args:
        model: The model.
        use: What the workload finds in a window of so many tokens; None if no sequence is longer than it.
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
        read = memory("window_cache", cached * found.tokens_held, Split.HEADS, per_logit=True)
        return replace(read, elements_per_sequence=cached * found.tokens_held, scales=operator.scales)

    return model.with_operators(served)


def whole(window: int) -> WindowUse:
    """A window that is always full: the longest contexts."""
    return WindowUse(window, window)


def _scaled(operator: Operator, share: float) -> Operator:
    return replace(
        operator,
        flop_per_pair=operator.flop_per_pair * share,
        elements_per_pair=operator.elements_per_pair * share,
        kept_elements_per_pair=operator.kept_elements_per_pair * share,
        window=0,
    )
