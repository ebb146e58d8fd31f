"""Messages between the stages of pipelines, one after another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from simpy.events import Event

from simsys.platform.events import Callback


class Line:
    """Messages from one stage to the next, in order, as in one NCCL stream."""

    __slots__ = ("_busy", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[Callback], object], Callback]] = deque()
        self._busy = False

    def send(self, start: Callable[[Callback], object], arrived: Callback) -> None:
        """Start a message as soon as all earlier ones have arrived.

        Args:
            start: Starts the message; its argument is the callback for the arrival.
            arrived: Called on arrival.
        """
        if self._busy:
            self._waiting.append((start, arrived))
            return
        self._busy = True

        def ended(event: Event) -> None:
            self._busy = False
            if self._waiting:
                self.send(*self._waiting.popleft())
            arrived(event)

        start(ended)
