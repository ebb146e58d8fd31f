"""Pipeline schedules: for each stage, the order of forward and backward passes over micro-batches. Pure data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from simsys.errors import UsageError


class ActionKind(StrEnum):
    """The action of a stage on a micro-batch."""

    FORWARD = "forward"
    BACKWARD = "backward"  # of inputs and weights, or of inputs alone if the schedule has WEIGHT actions
    WEIGHT = "weight"  # gradients of the weights, put off to fill bubbles

    __hash__ = str.__hash__  # the hash of Enum is a slow Python function


class Action(NamedTuple):
    """One pass of one micro-batch through one chunk of a stage's layers."""

    kind: ActionKind
    micro_batch: int
    chunk: int = 0


@lru_cache(maxsize=64)
def passes(kind: ActionKind, micro_batches: int, chunk: int = 0) -> tuple[Action, ...]:
    """The passes of all micro-batches through a chunk, in order; made once, for all stages."""
    return tuple(Action(kind, micro_batch, chunk) for micro_batch in range(micro_batches))


class Schedule(ABC):
    """The order of work of every pipeline stage; stateless."""

    splits_backward = False
    """True if the gradients of inputs and of weights are separate actions."""

    bidirectional = False
    """True if micro-batches enter at both ends of the pipeline.

    A stage then holds its chunk and, as the second one, the chunk of the opposite stage. The first half of the
    micro-batches passes the first chunks of all stages, the second half the second chunks, in the opposite direction.
    """

    @classmethod
    def held_chunks(cls, chunks: int) -> int:
        """Chunks that a stage holds, of `chunks` in each direction."""
        return 2 * chunks if cls.bidirectional else chunks

    @abstractmethod
    def actions(self, stage: int, stages: int, micro_batches: int, chunks: int) -> list[Action]:
        """The actions of a stage in one step, in order.

        Args:
            stage: The stage, from 0.
            stages: Number of stages.
            micro_batches: Micro-batches of the step.
            chunks: Chunks of layers that each stage holds (virtual stages).

        Raises:
            UsageError: If the schedule does not allow these numbers.
        """


def require_one_chunk(schedule: Schedule, chunks: int) -> None:
    """Raise UsageError if stages hold several chunks."""
    if chunks != 1:
        name = type(schedule).__name__
        raise UsageError(f"{name} has one chunk of layers per stage, not {chunks} virtual stages; use interleaved")


def peak_in_flight(actions: Sequence[Action]) -> tuple[int, ...]:
    """For each chunk, how many micro-batches have activations when the stage keeps most of them.

    They are kept until the gradients of the weights are complete.
    """
    released = ActionKind.WEIGHT if any(kind is ActionKind.WEIGHT for kind, _, _ in actions) else ActionKind.BACKWARD
    chunks = max(chunk for _, _, chunk in actions) + 1
    kept, peak = [0] * chunks, (0,) * chunks
    total = most = 0
    for kind, _, chunk in actions:
        change = 1 if kind is ActionKind.FORWARD else -(kind is released)
        kept[chunk] += change
        total += change
        if total > most:
            most, peak = total, tuple(kept)
    return peak
