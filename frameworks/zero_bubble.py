"""Zero-bubble schedule ZB-H1: gradients of weights fill the bubbles (Qi et al. 2023, §2.2)."""

from __future__ import annotations

from functools import lru_cache

from simsys.framework import Action, ActionKind, Schedule, register, require_one_chunk


@register("zero_bubble")
class ZeroBubbleH1(Schedule):
    """The bubble is (p-1)(t_F + t_B - t_W): a third of 1F1B's if the three are equal.

    The number of micro-batches in flight is that of 1F1B.
    """

    splits_backward = True

    def actions(self, stage: int, stages: int, micro_batches: int, chunks: int) -> list[Action]:
        """Return the greedy order for passes of equal length: backward before forward before weight gradients."""
        require_one_chunk(self, chunks)
        return list(greedy_orders(stages, micro_batches)[stage])


@lru_cache(maxsize=16)
def greedy_orders(stages: int, micro_batches: int) -> tuple[tuple[Action, ...], ...]:
    """Advance time in units; in each, every stage starts the most urgent action that is possible."""
    arrived = [[0] * micro_batches, *([_NEVER] * micro_batches for _ in range(stages - 1))]
    returned = [[_NEVER] * micro_batches for _ in range(stages)]
    orders: list[list[Action]] = [[] for _ in range(stages)]
    done = [dict.fromkeys(ActionKind, 0) for _ in range(stages)]
    time = 0
    while any(len(order) < 3 * micro_batches for order in orders):
        choices = [
            _choose(stage, stages, time, done[stage], arrived[stage], returned[stage]) for stage in range(stages)
        ]
        time += 1
        for stage, kind in enumerate(choices):
            if kind is None:
                continue
            micro_batch = done[stage][kind]
            done[stage][kind] += 1
            orders[stage].append(Action(kind, micro_batch))
            if kind is ActionKind.FORWARD:
                following = arrived[stage + 1] if stage + 1 < stages else returned[stage]
                following[micro_batch] = time
            elif kind is ActionKind.BACKWARD and stage:
                returned[stage - 1][micro_batch] = time
    return tuple(map(tuple, orders))


_NEVER = 1 << 60


def _choose(
    stage: int, stages: int, time: int, done: dict[ActionKind, int], arrived: list[int], returned: list[int]
) -> ActionKind | None:
    forward, backward = done[ActionKind.FORWARD], done[ActionKind.BACKWARD]
    if backward < forward and returned[backward] <= time:
        return ActionKind.BACKWARD
    if forward < len(arrived) and arrived[forward] <= time and forward - backward < stages - stage:
        return ActionKind.FORWARD
    return ActionKind.WEIGHT if done[ActionKind.WEIGHT] < backward else None
