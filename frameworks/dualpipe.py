"""DualPipe: micro-batches enter at both ends of the pipeline (DeepSeek-AI 2024, DeepSeek-V3, §3.2.1, table 2)."""

from __future__ import annotations

from collections import deque

from simsys.errors import UsageError
from simsys.framework import Action, ActionKind, Schedule, register


@register("dualpipe")
class DualPipe(Schedule):
    """The bubble is (p/2-1)(F&B + B - 3W), for twice the weights and p+1 micro-batches of activations.

    The order is that of deepseek-ai/DualPipe (dualpipe.py). Its pairs of a forward pass in one direction and a
    backward pass in the other, F&B, follow each other here; `expert_overlap` hides their all-to-alls.
    """

    splits_backward = True
    bidirectional = True

    def actions(self, stage: int, stages: int, micro_batches: int, chunks: int) -> list[Action]:
        """Return the eight steps of the published schedule; the second half of the stages swaps the directions."""
        if stages % 2 or chunks != 2 or micro_batches % 2 or micro_batches < 2 * stages:
            needs = f"an even number of stages and of micro-batches, at least 2 x {stages} of these"
            raise UsageError(f"DualPipe needs {needs}, and no virtual stages; not {stages} and {micro_batches}")
        order, middle, each = _Order(stage >= stages // 2, micro_batches), stages // 2, micro_batches // 2
        place = min(stage, stages - 1 - stage)
        later = middle - place - 1
        order.do("F0", 2 * later)
        order.do("F0 F1", place + 1)
        order.do("b1 W F1", later)
        order.do("F0 B1 F1 B0", each - stages + place + 1)
        order.do("B1 F1 B0", later)
        last = ["B1", "B0"] * (place + 1)  # the second half of these put the gradients of weights off
        order.do(" ".join([*last[: place + 1], *map(str.lower, last[place + 1 :])]), 1)
        order.do("W b0", later)
        order.do("W", place + 1)
        return order.found


class _Order:
    """Collects passes: F and B with their direction, b for a backward pass whose weights are put off until a W."""

    def __init__(self, swapped: bool, micro_batches: int) -> None:
        self.found: list[Action] = []
        self._swapped, self._first = swapped, (0, micro_batches // 2)
        self._next = {(kind, chunk): self._first[chunk] for kind in ActionKind for chunk in (0, 1)}
        self._late: deque[tuple[int, int]] = deque()

    def do(self, passes: str, times: int) -> None:
        """Add passes, such as ``F0 B1``, several times."""
        for one in passes.split() * times:
            if one == "W":
                self.found.append(Action(ActionKind.WEIGHT, *self._late.popleft()))
                continue
            kind = ActionKind.FORWARD if one[0] == "F" else ActionKind.BACKWARD
            chunk = int(one[1]) ^ self._swapped
            micro_batch = self._next[kind, chunk]
            self._next[kind, chunk] += 1
            self.found.append(Action(kind, micro_batch, chunk))
            if one[0] == "B":
                self.found.append(Action(ActionKind.WEIGHT, micro_batch, chunk))
            elif one[0] == "b":
                self._late.append((micro_batch, chunk))
