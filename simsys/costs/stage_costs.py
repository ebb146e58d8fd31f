"""What steps cost in the stages of a pipeline and in the channels between them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import chain
from math import inf
from typing import NamedTuple, TypeVar

from simsys.costs.pass_cost import PassCost
from simsys.model.batch import Batch

StageLine = tuple[float, float]
"""Duration of a step in a stage or channel: a line in a number with constant growth."""
Lines = tuple[tuple[StageLine, ...], float]
"""The line of each stage and channel, and the number from which other lines hold."""

T = TypeVar("T")


def woven(stages: Sequence[T], channels: Sequence[T]) -> list[T]:
    """Stages with the channels between them, in the order in which a step comes to them."""
    return [*chain.from_iterable(zip(stages, channels, strict=False)), stages[-1]]


class DecodeLines(NamedTuple):
    """Durations of steps without prompts by the context of their sequences, in pieces that are linear in all stages.

    Args:
        begins: The least context of each piece; 0 for the first one.
        lines: By piece, the line of each stage and channel.
        exchange_s: What of a step does not keep a stage or channel busy: communication within stages.
    """

    begins: list[int]
    lines: list[tuple[StageLine, ...]]
    exchange_s: list[float]

    def at(self, context: int) -> Lines:
        """The piece of a context."""
        place = bisect_right(self.begins, context)
        return self.lines[place - 1], self.begins[place] if place < len(self.begins) else inf


class StageCosts:
    """The costs of all stages, on hardware that stays as it is.

    Args:
        stages: For each stage, costs of its passes.
        hops: Transfer time (s) of hidden states by tokens after each stage except the last.
    """

    def __init__(self, stages: Sequence[PassCost], hops: Callable[[float], Sequence[float]]) -> None:
        self._stages, self._hops = stages, hops
        self._decoding: dict[int, DecodeLines] = {}

    def decoding(self, sequences: int) -> DecodeLines:
        """Durations of steps with a number of decoding sequences only."""
        found = self._decoding.get(sequences)
        if found is None:
            found = self._decoding[sequences] = self._decode_lines(sequences)
        return found

    def _decode_lines(self, sequences: int) -> DecodeLines:
        """The pieces of all stages, divided where any of them is: step i of these runs has a context of i tokens."""
        batch, more = Batch(sequences, sequences, decode_sequences=sequences), Batch(decode_context_tokens=1)
        times = [cost.times(batch, more, 0.0) for cost in self._stages]
        begins = sorted({0, *(breakpoint for each in times for breakpoint, _, _ in each.breakpoints)})
        hops_s = self._hops(sequences)
        lines = [
            tuple(woven([each.line(begin) for each in times], [(hop_s, 0.0) for hop_s in hops_s])) for begin in begins
        ]
        return DecodeLines(begins, lines, woven([each.idle_s for each in times], [0.0] * len(hops_s)))

    def step(self, batch: Batch) -> tuple[tuple[StageLine, ...], list[float]]:
        """Durations of one step, as lines that do not grow, and what of them is communication within stages."""
        seconds = [cost.seconds(batch) for cost in self._stages]
        hops_s = self._hops(batch.tokens)
        exchange_s = woven([exchange_s for _, exchange_s in seconds], [0.0] * len(hops_s))
        whole_s = woven([compute_s + exchange_s for compute_s, exchange_s in seconds], hops_s)
        return tuple((each_s, 0.0) for each_s in whole_s), exchange_s
