"""An engine that looks for new requests now and then only: SGLang with a `--scheduler-recv-interval`."""

from __future__ import annotations

from simsys.serving.intake import Intake


class Polling(Intake):
    """Requests are received every so-many decode steps, after prefills, and when the engine is idle.

    Args:
        interval: Decode steps between two receptions.
    """

    def __init__(self, interval: int) -> None:
        super().__init__()
        self._interval = interval
        self._since = 0  # decode steps since the last look

    @property
    def longest_run(self) -> int:
        """Until the next look."""
        return self._interval - self._since

    def passes(self, request: int) -> bool:
        """At once, unless sequences decode."""
        if not self.engine.left or self.engine.chunks:
            return True
        self.waiting.append(request)
        return False

    def ran(self, steps: int, *, prompts: bool) -> None:
        """Look if it is time."""
        self._since += self._interval if prompts else steps
        if self._since >= self._interval:
            self.release()

    def release(self) -> None:
        """Receive new requests."""
        self._since = 0
        super().release()
