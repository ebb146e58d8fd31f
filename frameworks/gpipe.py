"""GPipe: all micro-batches forward, then all backward (Huang et al. 2019, §2.3)."""

from __future__ import annotations

from simsys.framework import Action, ActionKind, Schedule, passes, register, require_one_chunk


@register("gpipe")
class GPipe(Schedule):
    """Simple, and holds the activations of all micro-batches; the bubble is (p-1)/m of the work."""

    def actions(self, stage: int, stages: int, micro_batches: int, chunks: int) -> list[Action]:
        """Forward in order, backward in reverse order."""
        require_one_chunk(self, chunks)
        return [*passes(ActionKind.FORWARD, micro_batches), *reversed(passes(ActionKind.BACKWARD, micro_batches))]
