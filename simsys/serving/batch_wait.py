"""An engine that lets prompts wait for more of them: TensorRT-LLM with `batch_wait_timeout_iters`."""

from __future__ import annotations

from collections import deque
from sys import maxsize
from typing import Any

from simsys.serving.replica import Replica


class BatchWaitReplica(Replica):
    """A replica that decodes on while prompts wait, until so many steps have passed or there are enough of them.

    Args:
        given: Whatever else a `Replica` is given.
        steps: Decode steps that the first of them waits at most, after the step in which it comes.
        tokens: Tokens of prompts and decoding sequences that are enough for a step.
        named: As `given`.
    """

    def __init__(self, *given: Any, steps: int, tokens: float, **named: Any) -> None:
        super().__init__(*given, **named)
        self._most, self._enough = steps, tokens
        self._held: deque[int] = deque()
        self._held_tokens = 0  # of their prompts
        self._passed = -1  # decode steps since the end of that in which the first one came; -1 before

    @property
    def outstanding(self) -> int:
        """Requests that wait or run here, be they held back or not."""
        return super().outstanding + len(self._held)

    def submit(self, request: int) -> None:
        """A request arrives here; as long as sequences decode, it may have to wait."""
        if not self._left:
            super().submit(request)
        elif self.accepts(request):
            self._held.append(request)
            self._held_tokens += self.sequences.prompt_tokens[request]
            if self._left > 1 and (self._passed < 0 or self._are_enough()):
                self._steps.cut()

    def _boundary(self, steps: int) -> None:
        self._left = 0
        if self._held:
            self._passed = 0 if self._passed < 0 else self._passed + steps
            if self._passed >= self._most or self._are_enough():
                self._release()
        super()._boundary(steps)

    def _start_decoding(self) -> None:
        if self._held and not self._decode.size:
            self._release()
            self._next()
        else:
            self._longest_run = maxsize if self._passed < 0 else self._most - self._passed
            super()._start_decoding()

    def _are_enough(self) -> bool:
        return self._held_tokens + self._decode.size >= self._enough

    def _release(self) -> None:
        self._passed, self._held_tokens = -1, 0
        while self._held:
            self.scheduler.waiting.append(self._held.popleft())
