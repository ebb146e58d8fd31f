"""Steps of data-parallel ranks that share their experts, one by one: passes over the parts of the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from simpy.events import Event

from simsys.executors.core import Core
from simsys.executors.steps.cohort import Cohort, Member
from simsys.model.batch import Batch
from simsys.ops import Forward
from simsys.parallel.lockstep import LockStep
from simsys.platform.events import At

Pass = Callable[[Forward], Event]


class CohortSteps(Cohort):
    """Each step is a pass of every rank, the exchange when the last one is ready, and passes over the experts.

    Args:
        core: The services of the executor.
        lockstep: The ranks and their passes.
        forward: Carries out a pass.
    """

    def __init__(self, core: Core, lockstep: LockStep, forward: Pass) -> None:
        super().__init__(core, lockstep, 1)
        self._pass, self._started_s = forward, 0.0

    def begin(self, steps: int) -> None:
        """Begin one step."""
        self._started_s = self.env._now
        own = [
            self._pass(self.forward(each.team, "own", each.now_batch, self._before_s(each))) for each in self.running
        ]
        self._after(own, self._send)

    def _after(self, events: Iterable[Event], call: Callable[[Event], None]) -> None:
        waited = self.core.env.all_of(list(events))
        assert waited.callbacks is not None
        waited.callbacks.append(call)

    def _send(self, _: Event) -> None:
        if self.running:
            self._after([self._pass(self.forward(self.lockstep.everyone, "exchange", self.loads()[1]))], self._work)

    def _before_s(self, member: Member) -> float:
        return self.moved_s + (0.0 if self.overlapped else member.host_s)

    def _work(self, _: Event) -> None:
        if self.running:
            mean, teams = self.loads()[0], self.lockstep.teams
            self._after([self._pass(self.forward(team, "experts", mean)) for team in teams], self._finish)

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
