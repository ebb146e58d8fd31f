"""Data-parallel ranks that process prompts together: TensorRT-LLM with `attention_dp_config.enable_balance`.

A prompt on one rank delays all others, since ranks step together. So a step has prompts if every rank has one, if a
rank has nothing to decode, or after a number of steps without (`_balance_adp_requests` of its `py_executor.py`). Steps
are counted whether prompts wait or not. Prompts that find no room in a step with prompts wait for the next such step.
"""

from __future__ import annotations

from simsys.serving.intake import Intake


class PromptBalance(Intake):
    """Decoding continues while prompts wait for prompts of the other ranks; no prompt waits if a rank is idle.

    Args:
        steps: Most decode steps in a row.
        step_tokens: Most tokens of prompts and decoding sequences of a step.
        together: The intakes of all ranks, to which it adds itself.
    """

    def __init__(self, steps: int, step_tokens: int, together: list[Intake]) -> None:
        super().__init__()
        self._most, self._step_tokens, self._together = steps, step_tokens, together
        self._passed = 0  # decode steps since the last one that could have prompts
        self._due = False  # whether the next step may have prompts
        together.append(self)

    @property
    def longest_run(self) -> int:
        """Until the next step that may have prompts."""
        return 1 if self._due or self._all_wait() else self._most - self._passed

    def passes(self, request: int) -> bool:
        """At once, unless all ranks decode."""
        if not self.engine.left or self._a_rank_is_idle():
            return True
        self.waiting.append(request)
        if self._all_wait():
            self._let_all_go()
        return False

    def ran(self, steps: int, *, prompts: bool) -> None:
        """Count the steps of a run."""
        self._passed += steps
        if self._passed >= self._most or self._all_wait() or self._a_rank_is_idle():
            self._let_all_go()
            self._due = True
        if self._due:
            self.release()

    def withdraw(self, request: int) -> None:
        """The client of a prompt has given up; without prompts, none is due."""
        super().withdraw(request)
        if not self.waiting:
            self._due = False

    def release(self) -> None:
        """Let the prompts be processed that find room in the next step: one at least."""
        self._passed, self._due = 0, False
        scheduler, prompt_tokens = self.engine.scheduler, self.engine.sequences.prompt_tokens
        room = self._step_tokens - scheduler.decode.size * scheduler.decode.queries
        room = max(room, prompt_tokens[self.waiting[0]]) if self.waiting else 0
        while self.waiting and prompt_tokens[self.waiting[0]] <= room:
            room -= prompt_tokens[self.waiting[0]]
            scheduler.waiting.append(self.waiting.popleft())

    def _all_wait(self) -> bool:
        """Whether every rank has a prompt."""
        return all(each.waiting for each in self._together)

    def _a_rank_is_idle(self) -> bool:
        return any(not each.engine.busy for each in self._together)

    def _let_all_go(self) -> None:
        """The next step of all ranks may have prompts."""
        for each in self._together:
            if isinstance(each, PromptBalance) and each.waiting:
                each._due = True
                if each.engine.left > 1:
                    each.engine.stepper.cut()
