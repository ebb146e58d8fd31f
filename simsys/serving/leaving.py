"""How requests leave an engine before their end: their clients cancel them, or the run ends.

As in vLLM (vllm/v1/engine/core.py, `abort_requests`; vllm/v1/core/sched/scheduler.py, `finish_requests`), an engine
hears of cancellations between steps. A waiting request leaves at once. A running one leaves when the step under way
has ended, with the token of that step, and gives back its blocks before the next step is scheduled.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection
from typing import Any

from simsys.serving.cancelled import Cancelled
from simsys.serving.engine_state import EngineState
from simsys.serving.intake import Intake
from simsys.serving.queues import SharedQueue

HAD_ENOUGH = "cancelled by its client"


class Leaving(EngineState):
    """An engine that requests may leave; `Engine` is the one that is used.

    Args:
        given: As of `EngineState`.
        intake: What requests pass on their way to the scheduler's queue; by default nothing.
        named: As of `EngineState`.
    """

    __slots__ = ("_counts", "_held", "_intake", "leaving", "on_cancel", "prompt_watchers")

    def __init__(self, *given: Any, intake: Intake | None = None, **named: Any) -> None:
        super().__init__(*given, **named)
        self.on_cancel: Callable[[int, str], None] | None = None
        """Called with every request whose client has given up and the reason, once it holds nothing here."""
        self.prompt_watchers: list[Callable[[int], None]] = []
        """Called with every request that has its first token, or leaves without one."""
        self.leaving: dict[int, str] = {}
        """Running requests whose clients have given up, with the reason; they leave after the step under way."""
        self._intake = intake
        self._held: Collection[int] = () if intake is None else intake.waiting
        self._counts = intake is not None and intake.counts  # of a class, which is slow to look up
        if intake is not None:
            intake.bind(self)

    @abstractmethod
    def notice(self, request: int) -> None:
        """A request has joined the queue, or come to its front."""

    @abstractmethod
    def ask_again(self) -> None:
        """Begin, or end the run at the next step."""

    def cancel(self, request: int, reason: str) -> bool:
        """The client of a request gives up; False, and no change, if the request is not here.

        Args:
            request: The request.
            reason: Why, for the metrics.
        """
        waiting = self.scheduler.waiting
        if request in self._running:
            self.leaving[request] = reason
            if request not in self.scheduler.fetching:  # a cache in flight arrives first
                self.ask_again()
        elif request in self.scheduler.aside:
            self.leaving[request] = reason  # a prefix in flight arrives first
        elif self._intake is not None and request in self._intake.waiting:
            self._intake.withdraw(request)
            self._gave_up(request, reason, waiting=True)
        elif request in waiting:
            first = waiting[0] == request
            waiting.remove(request)
            self._gave_up(request, reason, waiting=not self.scheduler.forget(request))
            if first and waiting:
                if isinstance(waiting, SharedQueue):
                    waiting.tell(waiting[0])
                else:
                    self.notice(waiting[0])
        else:
            return False
        return True

    def _rest(self) -> None:
        """Nothing is left to do, unless requests are held back."""
        if self._intake is not None and self._intake.releases():
            self.boundary(0)
            return
        self._note()
        if self._pausing:
            self._go_on(0)
        self.busy = False

    def _leave(self) -> None:
        """Let running requests go whose clients have given up, between two runs."""
        for request, reason in list(self.leaving.items()):
            if request in self.scheduler.fetching or request in self.scheduler.aside:
                continue
            del self.leaving[request]
            if request in self._running:  # otherwise it has just had its last token
                self.decoding = 0
                self.scheduler.take_out(request)
                self._gave_up(request, reason)

    def _gave_up(self, request: int, reason: str, *, waiting: bool = False) -> None:
        """Report a request that holds nothing any more, with the tokens that were computed for it."""
        sequences = self.sequences
        generated = sequences.generated_tokens[request]
        prompt = sequences.prompt_tokens[request] if generated else sequences.computed_tokens[request]
        cancelled = Cancelled(reason, prompt, generated, self._env._now, waiting)
        for hook in self._probes.request_cancelled:
            hook(request, cancelled)
        for told in self.prompt_watchers:
            told(request)
        if self.on_cancel is not None:
            self.on_cancel(request, reason)

    def stop(self) -> None:
        """The run ends now: book the steps that have ended, and begin no others."""
        steps = self.stepper.stop() if self.left else 0
        if steps:
            chunks = self.chunks
            self._hold(chunks, steps + 1)  # and those of the step under way
            self._prefill.finish(chunks, steps)
            if self.decoding:
                self._decode.finish(steps)
        self._note()
        self._wait(0)
        fetching = self.scheduler.fetching
        for request in self._running:
            if request not in self._prefilling and request not in fetching:
                self._decode.remove(request)
        self._stopped = self.busy = True
        self.copying, self.left = False, 0
