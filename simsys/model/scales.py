"""Ratios of a macro operation's amounts to the sums over the layers (`simsys.model.aggregates`)."""

from __future__ import annotations

from typing import NamedTuple


class Scale(NamedTuple):
    """Ratios by which the amounts of operators are multiplied for their cost; 1 where both agree.

    Args:
        flop: Ratio for the FLOP of tokens.
        elements: Ratio for the activations that tokens read and write.
        weights: Ratio for the weights that a pass reads.
        pairs: Ratio for the FLOP of query-key pairs.
        context: Ratio for the KV cache that is read.
        factor: Critical-path factor, by which the time of kernels is multiplied.
    """

    flop: float = 1.0
    elements: float = 1.0
    weights: float = 1.0
    pairs: float = 1.0
    context: float = 1.0
    factor: float = 1.0


PLAIN = Scale()


class Scales(NamedTuple):
    """The scales of both kinds of passes.

    Args:
        prompts: Of passes that hold prompts, and of training: ``prefill``, or ``forward``.
        decode: Of steps that only decode; in any pass, of the head and of decode attention: ``decode``, or
            ``forward``.
    """

    prompts: Scale = PLAIN
    decode: Scale = PLAIN
