"""Who holds which links: sets of links that a schedule has for itself until somebody else comes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING

from simsys.platform.environment import Environment
from simsys.platform.flight import CalendarLink

if TYPE_CHECKING:
    from simsys.platform.quiet import QuietRun, QuietSchedule

_MOST_PATIENCE = 1 << 10  # undisturbed steps that are waited for at most before links are claimed again


class Claim:
    """Links that schedules want for themselves.

    Args:
        env: The environment.
        links: The links.
    """

    __slots__ = ("_calm", "_env", "_links", "_patience", "held", "run", "starts_s")

    def __init__(self, env: Environment, links: Iterable[CalendarLink]) -> None:
        self._env, self._links = env, tuple(links)
        timelines = [link.timeline for link in self._links if link.timeline is not None]
        self.starts_s = sorted({0.0, *(time_s for each in timelines for time_s in each.changes_s)})
        """When the links become what they are in each epoch."""
        self.held = False
        """Whether nobody else can be on the links without asking for them first."""
        self._calm, self._patience = 0, 1
        self.run: QuietRun | None = None
        """What goes on on the links."""

    def epoch(self, time_s: float) -> int:
        """How often the links have changed by a time."""
        return bisect_right(self.starts_s, time_s) - 1 if len(self.starts_s) > 1 else 0

    def take(self) -> bool:
        """Hold the links from now on if they are idle and nothing is on its way to them; say whether that is so."""
        now = self._env._now
        if self.held:
            if self.run is None or self.run.end_s <= now:
                return True
            self.give_way()
            return False
        for link in self._links:
            if link.holder is not None:
                link.holder.give_way()
            if link.free_at_s > now or link.expected:
                return False
        for link in self._links:
            link.holder = self
        self.held = True
        return True

    def give_way(self) -> None:
        """Somebody else comes: let go of the links, as they are at this moment."""
        self.held = False
        for link in self._links:
            link.holder = None
        run, self.run = self.run, None
        if run is not None and run.end_s > self._env._now:
            self._calm, self._patience = 0, min(2 * self._patience, _MOST_PATIENCE)
            run.schedule.interrupt(run)

    def calm(self, undisturbed: bool) -> bool:
        """Told of every step that was taken on the links, say whether to claim them again.

        Each interruption doubles the number of undisturbed steps that are waited for, so that collectives
        which go on interrupting each other do not spend their time on claims.
        """
        self._calm = self._calm + 1 if undisturbed else 0
        return self._calm >= self._patience

    def ended(self, run: QuietRun) -> None:
        """A run has ended undisturbed."""
        if self._patience > 1:
            self._patience //= 2
        if self.run is run:
            self.run = None


class Claims:
    """The claims on the links of a network, one per set of links.

    Args:
        env: The environment.
    """

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._claims: dict[frozenset[CalendarLink], Claim] = {}
        self.schedules: list[QuietSchedule] = []
        """Those that may have run without telling their links."""

    def of(self, links: Iterable[CalendarLink]) -> Claim:
        """The claim on some links."""
        in_order = tuple(dict.fromkeys(links))
        key = frozenset(in_order)
        found = self._claims.get(key)
        if found is None:
            found = self._claims[key] = Claim(self._env, in_order)
        return found

    def settle(self) -> None:
        """Bring all links up to this moment."""
        for claim in self._claims.values():
            if claim.run is not None:
                claim.give_way()
        for schedule in self.schedules:
            schedule.settle()
