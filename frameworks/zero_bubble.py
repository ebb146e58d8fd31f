"""Zero-bubble schedule ZB-H1: gradients of weights fill the bubbles (Qi et al. 2023, §2.2)."""

from __future__ import annotations

from simsys.framework import Action, ActionKind, Schedule, passes, register, require_one_chunk


@register("zero_bubble")
class ZeroBubbleH1(Schedule):
    """The bubble is (p-1)(t_F + t_B - t_W): a third of 1F1B's if the three are equal.

    Passes alternate as in 1F1B. Stage s puts off the gradients of weights by s micro-batches. So every stage keeps p
    micro-batches until their gradients are complete, as many as the first stage of 1F1B.
    """

    splits_backward = True

    def actions(self, stage: int, stages: int, micro_batches: int, chunks: int) -> list[Action]:
        """Return 1F1B's order, in which the gradients of weights follow `stage` micro-batches later."""
        require_one_chunk(self, chunks)
        forward, backward, weight = (passes(kind, micro_batches) for kind in ActionKind)
        ahead = stages - stage
        order = [*forward[:ahead]]
        for place in range(micro_batches):
            order.append(backward[place])
            if place >= stage:
                order.append(weight[place - stage])
            order += forward[place + ahead : place + ahead + 1]
        return [*order, *weight[max(0, micro_batches - stage) :]]
