"""Steps of data-parallel ranks that share their experts, one by one: passes over the parts of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simpy.events import Event

from simsys.executors.core import Core
from simsys.executors.steps.cohort import Cohort
from simsys.executors.steps.rounds import Round, drafted_s, rounds_of
from simsys.model.batch import Batch
from simsys.ops import Forward
from simsys.parallel.lockstep import LockStep
from simsys.platform.events import At
from simsys.starter import Drafting

Together = Callable[[Sequence[Forward]], Event]
"""Carries out passes of several teams that begin now; the event fires at the end of the last."""


class CohortSteps(Cohort):
    """Each pass is one of every rank, the exchange when the last one is ready, and passes over the experts.

    Args:
        core: The services of the executor.
        lockstep: The ranks and their passes.
        drafting: How each rank drafts tokens, if they do.
        together: Carries out passes of several teams.
    """

    def __init__(self, core: Core, lockstep: LockStep, drafting: Drafting | None, together: Together) -> None:
        super().__init__(core, lockstep, drafting, 1)
        self._together, self._started_s = together, 0.0
        self._rounds: list[Round] = []  # of the step under way, the one under way first
        self._mean = Batch()  # of the experts in it

    def begin(self, steps: int) -> None:
        """Begin one step."""
        self._started_s = self.env._now
        works = self.works()
        self._rounds = list(rounds_of(self.lockstep, self.drafting, works))
        host_s = 0.0 if self.overlapped else self.host_s
        self._begin_round(host_s + self.moved_s + drafted_s(self.drafting, works))

    def _begin_round(self, before_s: float) -> None:
        """The own parts of the ranks, which begin together."""
        found = self._rounds[0]
        self._after([found.forward(each.team, "own", each.batch, before_s) for each in found.works], self._send)

    def _after(self, passes: Sequence[Forward], call: Callable[[Event], None]) -> None:
        over = self._together(passes)
        assert over.callbacks is not None
        over.callbacks.append(call)

    def _send(self, event: Event) -> None:
        if not self.running:
            return
        found = self._rounds[0]
        if not found.lockstep.exchange.stretches:
            self._go_on(event)
            return
        self._mean, exchanged = found.loads()
        self._after([found.forward(self.lockstep.everyone, "exchange", exchanged)], self._work)

    def _work(self, _: Event) -> None:
        if self.running:
            found = self._rounds[0]
            self._after([found.forward(team, "experts", self._mean) for team in self.lockstep.teams], self._go_on)

    def _go_on(self, event: Event) -> None:
        """The next pass of the step, if there is one."""
        del self._rounds[0]
        if self._rounds and self.running:
            self._begin_round(0.0)
        else:
            self._finish(event)

    def _finish(self, _: Event) -> None:
        at_s = max(self.env._now, self._started_s + self.host_s if self.running and self.overlapped else 0.0)
        At(self.env, at_s, self._ended)

    def _ended(self, _: Event) -> None:
        if self.running:
            self.end(self.planned())

    def planned(self) -> int:
        """Note the step that ends now."""
        if self.probes.steps:
            for each in self.running:
                batch: Batch = each.batch
                each.log.add_each(batch.tokens, batch.decode_sequences, self._started_s, (self.env._now,))
        return 1

    def passed(self) -> int:
        """All steps that have ended have been reported."""
        return 0

    def shorten(self) -> int:
        """A stretch is one step."""
        return 1

    def book(self, steps: int) -> None:
        """The passes have been counted."""
