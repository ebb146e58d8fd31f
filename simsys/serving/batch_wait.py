"""An engine that lets prompts wait for more of them: TensorRT-LLM with `batch_wait_timeout_iters`."""

from __future__ import annotations

from sys import maxsize

from simsys.serving.intake import Intake


class BatchWait(Intake):
    """Decoding continues while prompts wait, up to a number of steps or until there are enough tokens.

    Args:
        steps: Limit of decode steps for which the first prompt waits, after the step of its arrival.
        tokens: Tokens of prompts and decoding sequences that are enough for a step.
    """

    def __init__(self, steps: int, tokens: float) -> None:
        super().__init__()
        self._most, self._enough = steps, tokens
        self._held_tokens = 0  # of the prompts that wait
        self._passed = -1  # decode steps since the end of the one in which the first prompt came; -1 before

    @property
    def longest_run(self) -> int:
        """Until the prompts have waited long enough; a step if a request that decodes now makes them enough."""
        if self._passed < 0:
            return maxsize
        return 1 if self._are_enough() else self._most - self._passed

    def passes(self, request: int) -> bool:
        """At once, unless a step is under way."""
        engine = self.engine
        if not engine.left:
            return True
        self.waiting.append(request)
        self._held_tokens += engine.sequences.prompt_tokens[request]
        if engine.left > 1 and (self._passed < 0 or self._are_enough()):
            engine.stepper.cut()
        return False

    def ran(self, steps: int, *, prompts: bool) -> None:
        """Count the steps of a run."""
        if self.waiting:
            self._passed = 0 if self._passed < 0 else self._passed + steps
            if self._passed >= self._most or self._are_enough():
                self.release()

    def withdraw(self, request: int) -> None:
        """The client of a prompt has given up; without prompts, nothing is counted."""
        super().withdraw(request)
        self._held_tokens -= self.engine.sequences.prompt_tokens[request]
        if not self.waiting:
            self._passed = -1

    def release(self) -> None:
        """Let the prompts be processed."""
        self._passed, self._held_tokens = -1, 0
        super().release()

    def _are_enough(self) -> bool:
        return self._held_tokens + self.engine.scheduler.decode.size >= self._enough
