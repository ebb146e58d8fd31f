"""Interleaved 1F1B: every stage holds several chunks of layers (virtual stages; Narayanan et al. 2021, §2.2)."""

from __future__ import annotations

from simsys.errors import UsageError
from simsys.framework import Action, ActionKind, Schedule, register


@register("interleaved")
class Interleaved(Schedule):
    """With v chunks per stage the bubble is (p-1)/(v·m) of the work, for v times the messages."""

    def actions(self, stage: int, stages: int, micro_batches: int, chunks: int) -> list[Action]:
        """Micro-batches pass the chunks in groups of as many as there are stages (Megatron-LM)."""
        if micro_batches % stages:
            raise UsageError(f"interleaving needs micro-batches in multiples of {stages} stages, not {micro_batches}")
        total = micro_batches * chunks
        warm = min((stages - stage - 1) * 2 + (chunks - 1) * stages, total)
        forward = [self._pass(ActionKind.FORWARD, k, stages, chunks) for k in range(total)]
        backward = [self._pass(ActionKind.BACKWARD, k, stages, chunks) for k in range(total)]
        order = forward[:warm]
        for ahead, behind in zip(forward[warm:], backward, strict=False):
            order += [ahead, behind]
        return order + backward[total - warm :]

    @staticmethod
    def _pass(kind: ActionKind, index: int, stages: int, chunks: int) -> Action:
        round_, within = divmod(index, stages * chunks)
        chunk, place = divmod(within, stages)
        if kind is ActionKind.BACKWARD:
            chunk = chunks - 1 - chunk
        return Action(kind, round_ * stages + place, chunk)
