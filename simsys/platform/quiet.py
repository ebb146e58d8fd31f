"""Collectives whose links nobody else uses: one event, however many ranks and steps.

While a collective has its links for itself, nothing has to be simulated: how long each of its steps takes is found
once, by a rehearsal on idle links, and no step leaves a link busy beyond its end, so the times add up. The links
remember who holds them. As soon as anybody else starts a transfer over one of them, the state of that moment is
established exactly (which step, which transfers have entered which links), and the collective goes on step by
step until it has its links for itself again. Once held, links stay held between collectives, so that the next one on
the same links costs the same whatever their number.

Times equal those of the steps but for the rounding of sums (t0 + k·d instead of d added k times). At equal times, the
steps of whoever holds the links come before transfers that start at that moment.
"""

from __future__ import annotations

from collections.abc import Iterable

from simpy.events import Event

from simsys.platform.environment import LATE, Callback, Environment
from simsys.platform.flight import CalendarLink, Flight
from simsys.platform.schedule import Carry, Schedule, Step, SteppedRun

_MOST_PATIENCE = 1 << 10  # undisturbed steps that are waited for at most before links are claimed again


class QuietSchedule(Schedule[CalendarLink]):
    """A schedule that claims its links when it starts.

    Args:
        env: The environment.
        steps: What is done, in order.
        carry: Starts the transfers of a step.
        claims: Of the network.
    """

    def __init__(
        self, env: Environment, steps: Iterable[Step[CalendarLink]], carry: Carry[CalendarLink], claims: Claims
    ) -> None:
        super().__init__(env, steps, carry)
        self.complete_runs = 0
        """Runs that the links do not know of yet."""
        self._claims = claims
        self._claim = claims.of(link for step in self.steps for route in step.routes for link in route)
        self._step_s: list[float] = []
        self._total_s = 0.0
        self._started = False

    def start(self, done: Callback) -> None:
        """Carry it out from now on, in one event if the links are quiet."""
        if self.steps and self._rehearsed() and self._claim.take():
            self._run_quietly(done, 0, 0, self._total_s)
        else:
            super().start(done)

    def go_on(self, run: SteppedRun[CalendarLink], ended: Event) -> None:
        """Have the links for itself again if that seems to be so; else take the next step."""
        unfinished = self._step_s and run.index < len(self.steps)
        if unfinished and self._claim.calm(self._undisturbed(run)) and self._claim.take():
            self._run_quietly(run.done, run.index, run.taken, self._seconds_left(run))
        else:
            super().go_on(run, ended)

    def interrupt(self, run: QuietRun) -> None:
        """Go on step by step with a quiet run, from where it is now."""
        run.cancelled = True
        index, taken, started_s = self._position(run)
        self._count_between(run, index, taken)
        stepped = SteppedRun(self, run.done, index, taken)
        step = stepped.advance()
        assert step is not None
        stepped.started_s = started_s
        flight = Flight(self.env, step.nbytes, step.pause_s)
        flight.resume(step, started_s)
        flight.event.callbacks.append(stepped.go_on)

    def complete(self, run: QuietRun) -> None:
        """Count a quiet run that has come to its end."""
        if run.index or run.taken:
            self._count_between(run, len(self.steps), 0)
        else:
            self.complete_runs += 1

    def settle(self) -> None:
        """Tell the links of all complete runs."""
        for step in self.steps if self.complete_runs else ():
            _count(step, self.complete_runs * step.repeat)
        self.complete_runs = 0

    def _rehearsed(self) -> bool:
        """Whether it is known how long the steps take on idle links; not yet when it would not pay."""
        if self._step_s:
            return True
        if not self._started and all(step.repeat == 1 for step in self.steps):
            self._started = True  # a rehearsal is as much work as the thing itself: it pays from the second time on
            return False
        self._step_s = [_rehearse(step)[0] + step.pause_s for step in self.steps]
        self._total_s = sum(step.repeat * seconds for step, seconds in zip(self.steps, self._step_s, strict=True))
        self._claims.schedules.append(self)
        return True

    def _run_quietly(self, done: Callback, index: int, taken: int, seconds: float) -> None:
        now = self.env._now
        run = self._claim.run = QuietRun(self, self._claim, done, index, taken, now, now + seconds)
        end = Event(self.env)
        end.callbacks.append(run.ended)
        self.env.fire_at(run.end_s, end, priority=LATE)

    def _seconds_left(self, run: SteppedRun[CalendarLink]) -> float:
        """How long the steps that are left take on idle links."""
        left_s = -run.taken * self._step_s[run.index]
        for index in range(run.index, len(self.steps)):
            left_s += self.steps[index].repeat * self._step_s[index]
        return left_s

    def _undisturbed(self, run: SteppedRun[CalendarLink]) -> bool:
        """Whether the last step took no longer than on idle links."""
        now, alone_s = self.env._now, self._step_s[run.index if run.taken else run.index - 1]
        return now - run.started_s - alone_s <= 1e-9 * alone_s + 1e-15 * now

    def _position(self, run: QuietRun) -> tuple[int, int, float]:
        """The step that a quiet run is in: its place in `steps`, how many equal ones came before, when it began."""
        now, start_s = self.env._now, run.started_s
        index, taken = run.index, run.taken
        while index + 1 < len(self.steps):
            end_s = start_s + (self.steps[index].repeat - taken) * self._step_s[index]
            if end_s > now:
                break
            index, taken, start_s = index + 1, 0, end_s
        seconds, last = self._step_s[index], self.steps[index].repeat - taken - 1
        passed = min(last, int((now - start_s) / seconds)) if seconds else 0
        while passed < last and start_s + (passed + 1) * seconds <= now:
            passed += 1
        while passed and start_s + passed * seconds > now:
            passed -= 1
        return index, taken + passed, start_s + passed * seconds

    def _count_between(self, run: QuietRun, index: int, taken: int) -> None:
        """Tell the links of the steps of a quiet run up to a position."""
        for place in range(run.index, min(index + 1, len(self.steps))):
            step = self.steps[place]
            first = run.taken if place == run.index else 0
            _count(step, (taken if place == index else step.repeat) - first)


class QuietRun:
    """A schedule that has its links for itself.

    Args:
        schedule: What is carried out.
        claim: On its links.
        done: Called at the end.
        index: The place in ``schedule.steps`` of its first step.
        taken: How many times that one has been repeated before.
        started_s: When it starts.
        end_s: When it ends if nobody comes in between.
    """

    __slots__ = ("_claim", "cancelled", "done", "end_s", "index", "schedule", "started_s", "taken")

    def __init__(
        self,
        schedule: QuietSchedule,
        claim: Claim,
        done: Callback,
        index: int,
        taken: int,
        started_s: float,
        end_s: float,
    ) -> None:
        self.schedule, self._claim, self.done = schedule, claim, done
        self.index, self.taken = index, taken
        self.started_s, self.end_s = started_s, end_s
        self.cancelled = False

    def ended(self, event: Event) -> None:
        """The time is over: done, unless somebody came in between."""
        if not self.cancelled:
            self.schedule.complete(self)
            self._claim.ended(self)
            self.done(event)


class Claim:
    """Links that schedules want for themselves.

    Args:
        env: The environment.
        links: The links.
    """

    __slots__ = ("_calm", "_env", "_held", "_links", "_patience", "run")

    def __init__(self, env: Environment, links: Iterable[CalendarLink]) -> None:
        self._env, self._links = env, tuple(links)
        self._held = False
        self._calm, self._patience = 0, 1
        self.run: QuietRun | None = None
        """What goes on on the links."""

    def take(self) -> bool:
        """Hold the links from now on if they are idle and nothing is on its way to them; say whether that is so."""
        now = self._env._now
        if self._held:
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
        self._held = True
        return True

    def give_way(self) -> None:
        """Somebody else comes: let go of the links, as they are at this moment."""
        self._held = False
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
        self._patience = max(1, self._patience // 2)
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


def _rehearse(step: Step[CalendarLink]) -> tuple[float, dict[CalendarLink, CalendarLink]]:
    """Carry a step out on idle copies of its links; return how long it takes, and the copies."""
    copies: dict[CalendarLink, CalendarLink] = {}
    for route in step.routes:
        for link in route:
            if link not in copies:
                copies[link] = type(link)(link.spec)
    routes = [tuple(copies[link] for link in route) for route in step.routes]
    return Flight(Environment(), step.nbytes).rehearse(Step(routes, step.nbytes, 1)), copies


def _count(step: Step[CalendarLink], times: int) -> None:
    """Tell the links of a step that has been taken so many times while they were idle."""
    for link, copy in _rehearse(step)[1].items() if times else ():
        link.nbytes += times * copy.nbytes
        link.busy_s += times * copy.busy_s
        link.queued_s += times * copy.queued_s
