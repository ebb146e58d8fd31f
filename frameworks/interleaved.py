"""Interleaved 1F1B: every stage holds several chunks of layers (virtual stages; Narayanan et al. 2021, §2.2)."""

from __future__ import annotations

from functools import lru_cache
from itertools import product

from simsys.errors import UsageError
from simsys.framework import Action, ActionKind, Schedule, register


@register("interleaved")
class Interleaved(Schedule):
    """With v chunks per stage the bubble is (p-1)/(v·m) of the work, for v times the messages."""

    def actions(self, stage: int, stages: int, micro_batches: int, chunks: int) -> list[Action]:
        """Micro-batches run through the chunks in groups of one micro-batch per stage (Megatron-LM)."""
        if micro_batches % stages:
            raise UsageError(f"interleaving needs micro-batches in multiples of {stages} stages, not {micro_batches}")
        total = micro_batches * chunks
        warm = min((stages - stage - 1) * 2 + (chunks - 1) * stages, total)
        forward = in_groups(ActionKind.FORWARD, stages, micro_batches, chunks)
        backward = in_groups(ActionKind.BACKWARD, stages, micro_batches, chunks)
        order = list(forward[:warm])
        for pair in zip(forward[warm:], backward, strict=False):
            order += pair
        return order + list(backward[total - warm :])


@lru_cache(maxsize=16)
def in_groups(kind: ActionKind, stages: int, micro_batches: int, chunks: int) -> tuple[Action, ...]:
    """Return the passes of all micro-batches through all chunks, group by group; equal on all stages."""
    order = range(chunks) if kind is ActionKind.FORWARD else reversed(range(chunks))
    groups = product(range(0, micro_batches, stages), tuple(order), range(stages))
    return tuple(Action(kind, first + place, chunk) for first, chunk, place in groups)
