"""Data-parallel ranks that process prompts together: TensorRT-LLM with `attention_dp_config.enable_balance`.

A prompt on one rank delays all others, since ranks step together. So prompts wait until every rank has one, or for a
number of steps.
"""

from __future__ import annotations

from sys import maxsize

from simsys.serving.intake import Intake


class PromptBalance(Intake):
    """Decoding continues while prompts wait for prompts of the other ranks; no prompt waits if a rank is idle.

    Args:
        steps: Limit of decode steps for which the first prompt waits, after the step of its arrival.
        together: The intakes of all ranks, to which it adds itself.
    """

    def __init__(self, steps: int, together: list[Intake]) -> None:
        super().__init__()
        self._most, self._together = steps, together
        self._passed = -1  # decode steps since the end of the one in which the first prompt came; -1 before
        self._due = False  # whether they are processed from the next step on
        together.append(self)

    @property
    def longest_run(self) -> int:
        """Until the prompts have waited long enough."""
        if not self.waiting:
            return maxsize
        return 1 if self._due or self._passed < 0 else self._most - self._passed

    def passes(self, request: int) -> bool:
        """At once, unless all ranks decode."""
        if not self.engine.left or self._a_rank_is_idle():
            return True
        self.waiting.append(request)
        if all(each.waiting for each in self._together):
            self._let_all_go()
        elif self._passed < 0 and self.engine.left > 1:
            self.engine.stepper.cut()
        return False

    def ran(self, steps: int, *, prompts: bool) -> None:
        """Count the steps of a run."""
        if not self.waiting:
            return
        self._passed = 0 if self._passed < 0 else self._passed + steps
        if self._passed >= self._most or self._a_rank_is_idle():
            self._let_all_go()
        if self._due:
            self.release()

    def withdraw(self, request: int) -> None:
        """The client of a prompt has given up; without prompts, nothing is counted."""
        super().withdraw(request)
        if not self.waiting:
            self._passed, self._due = -1, False

    def release(self) -> None:
        """Let the prompts be processed."""
        self._passed, self._due = -1, False
        super().release()

    def _a_rank_is_idle(self) -> bool:
        return any(not each.engine.busy for each in self._together)

    def _let_all_go(self) -> None:
        """All ranks process their prompts from the next step on."""
        for each in self._together:
            if isinstance(each, PromptBalance) and each.waiting:
                each._due = True
                if each.engine.left > 1:
                    each.engine.stepper.cut()
