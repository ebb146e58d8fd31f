"""An engine that looks for new requests now and then only: SGLang with a `--scheduler-recv-interval`."""

from __future__ import annotations

from collections import deque
from typing import Any

from simsys.serving.replica import Replica


class PollingReplica(Replica):
    """A replica that sees who has come so many decode steps after it last looked, after prompts, and when it rests.

    Args:
        given: Whatever else a `Replica` is given.
        interval: Decode steps from look to look.
        named: As `given`.
    """

    def __init__(self, *given: Any, interval: int, **named: Any) -> None:
        super().__init__(*given, **named)
        self._interval = interval
        self._unseen: deque[int] = deque()
        self._since = 0  # decode steps

    @property
    def outstanding(self) -> int:
        """Requests that wait or run here, be they seen or not."""
        return super().outstanding + len(self._unseen)

    def submit(self, request: int) -> None:
        """A request arrives here; as long as sequences decode, it is seen at the next look."""
        if not self._left or self._chunks:
            super().submit(request)
        elif self.accepts(request):
            self._unseen.append(request)

    def _boundary(self, steps: int) -> None:
        self._left = 0  # a queue that replicas share tells this one too of what it puts there
        self._since += self._interval if self._chunks else steps
        if self._since >= self._interval:
            self._look()
        super()._boundary(steps)

    def _start_decoding(self) -> None:
        if self._unseen and not self._decode.size:
            self._look()
            self._next()
        else:
            self._longest_run = self._interval - self._since
            super()._start_decoding()

    def _look(self) -> None:
        self._since = 0
        while self._unseen:
            self.scheduler.waiting.append(self._unseen.popleft())
