"""1F1B: one forward, one backward in turn once the pipeline is full (PipeDream-Flush: Narayanan et al. 2021, §2.2)."""

from __future__ import annotations

from simsys.framework import Action, ActionKind, Schedule, passes, register, require_one_chunk


@register("one_f_one_b")
class OneForwardOneBackward(Schedule):
    """GPipe's bubble, but at most p - stage micro-batches in flight."""

    def actions(self, stage: int, stages: int, micro_batches: int, chunks: int) -> list[Action]:
        """Warm up, alternate, cool down."""
        require_one_chunk(self, chunks)
        forward, backward = (passes(kind, micro_batches) for kind in (ActionKind.FORWARD, ActionKind.BACKWARD))
        warm = min(stages - 1 - stage, micro_batches)
        order = list(forward[:warm])
        for pair in zip(forward[warm:], backward, strict=False):
            order += pair
        return order + list(backward[micro_batches - warm :])
