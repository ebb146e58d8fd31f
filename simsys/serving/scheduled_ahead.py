"""An engine that schedules each step while the one before is on the GPUs.

So do SGLang's overlap schedule (``event_loop_overlap``), vLLM's asynchronous scheduling (a queue of two batches in
``step_with_batch_queue``) and TensorRT-LLM's overlap scheduler (``_executor_loop_overlap``): new requests are read, a
step is scheduled and launched behind the one under way, and then the results of the latter are awaited.
"""

from __future__ import annotations

from typing import ClassVar

from simsys.serving.intake import Intake


class ScheduledAhead(Intake):
    """Requests that come during a step are in the step after the next at the earliest, unless the engine would rest.

    The next step was scheduled when the one under way began.
    """

    counts: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self._next = 0  # requests that the step after the one under way may have
        self._due = 0  # steps of the run after which they may, where it was shortened for them

    @property
    def longest_run(self) -> int:
        """A step, since requests are held back."""
        return 1

    def passes(self, request: int) -> bool:
        """At once, unless a step is under way."""
        engine = self.engine
        if not engine.left:
            return True
        self.waiting.append(request)
        if engine.left > 1:
            due = 0 if engine.chunks else engine.stepper.cut(True)
            if due:
                self._next, self._due = len(self.waiting), due
            else:
                engine.stepper.cut()
        return False

    def ran(self, steps: int, *, prompts: bool) -> None:
        """The step that has ended was scheduled before these requests came; the next one, too."""
        if steps >= self._due:
            for _ in range(self._next):
                self.engine.scheduler.waiting.append(self.waiting.popleft())
        self._next, self._due = len(self.waiting), 0

    def withdraw(self, request: int) -> None:
        """The client of a request that is held back has given up."""
        self._next -= self.waiting.index(request) < self._next
        super().withdraw(request)

    def release(self) -> None:
        """The engine rests: none waits any longer."""
        self._next = self._due = 0
        super().release()
