"""Consecutive steps of engines that share a pipeline: runs as one event, precomputed by a recurrence.

A step enters a stage, or the channel to the next one, when it has arrived and the previous step has left. So steps
leave in the order of entry, and an engine with a continuing run enters again at that time. While no run begins or
ends, the times are a recurrence over floats, computed ahead of time in a loop without events. Its length does not
change results, so it may be discarded and computed again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from math import inf
from typing import Protocol

from simpy.events import Event

from simsys.costs.stage_costs import Lines
from simsys.executors.steps.stages import Stages
from simsys.model.batch import Batch
from simsys.ops import Forward
from simsys.platform.environment import Environment
from simsys.platform.events import Recurring, boundary
from simsys.probes import Probes

FEWEST, MOST = 64, 4096
"""Precomputed steps: few after an interruption, then twice the number each time without one."""


class Sharer(Protocol):
    """The run of steps of one of the engines that share a pipeline."""

    host_s: float
    """Host time before each step."""
    growth: int
    """Growth per step of the number that determines durations."""
    lines_at: Callable[[int], Lines]
    """Durations of steps by this number."""
    steps: int
    """Steps of the run."""
    issued: int
    """Begun steps, as recorded by the pipeline."""
    ends_s: list[float]
    """Ends of steps recorded by the pipeline."""

    def number(self, step: int) -> int:
        """The number that determines the duration of a step, counted from the first of the run."""

    def after(self, steps: int) -> Batch:
        """The batch of a step."""

    def compute_s(self, step: int) -> list[float]:
        """For how long a step keeps each stage and channel busy."""

    def ended(self) -> None:
        """The run has ended now."""


class Turn:
    """Data of an engine in the recurrence."""

    __slots__ = ("growth", "host_s", "lines_at", "number", "stages", "until")

    def __init__(self, engine: Sharer) -> None:
        self.host_s, self.growth, self.lines_at = engine.host_s, engine.growth, engine.lines_at
        self.number = engine.number(engine.issued)
        self.stages: list[tuple[list[float], float, float]] = []
        self.until = -inf

    def renew(self, columns_s: Sequence[list[float]]) -> None:
        """For each stage and channel, ends of steps and durations of the next ones."""
        lines, self.until = self.lines_at(self.number)
        self.stages = [(ends_s, *line) for ends_s, line in zip(columns_s, lines, strict=True)]


class Pipeline:
    """The steps in flight in the stages of a replica.

    There is one step per engine with work, in the order of entry, which is also the order of leaving. Steps are
    numbered in this order, from 0 for the first to leave. With n engines in turn, step j + n of an engine enters when
    its step j leaves.

    Args:
        env: The environment.
        probes: Observers of passes.
        stages: The stages and their costs.
    """

    def __init__(self, env: Environment, probes: Probes, stages: Stages) -> None:
        self.env, self.stages = env, stages
        self._probes = probes
        self._priority = boundary(stages.passes[0].rank)
        self._order: list[Sharer] = []
        self._ends_s: list[list[float]] = [[] for _ in stages.servers]  # by stage and channel, of each step
        self._stop = 0  # the step at whose end the loop has to be asked again, or an engine
        self._most = FEWEST
        self._tick = Recurring(self.env, self._fire)
        self._due_s = -1.0
        self._firing = self._stopped = False

    def enter(self, engine: Sharer) -> None:
        """A run begins: its first step waits where one is that has entered before."""
        if not self._firing:
            self._settle(self._left())
        now_s, number = self.env._now, engine.number(0)
        time_s = now_s + engine.host_s
        lines, _ = engine.lines_at(number)
        for server, ends_s, (fixed_s, slope_s) in zip(self.stages.servers, self._ends_s, lines, strict=True):
            if server.free_at_s > time_s:
                time_s = server.free_at_s
            time_s += fixed_s + slope_s * number
            ends_s.append(time_s)
        if self._probes.operation:
            self._tell(engine, 0, now_s, len(self._order))
        for server, ends_s in zip(self.stages.servers, self._ends_s, strict=True):
            server.free_at_s = ends_s[-1]
        self._order.append(engine)
        if not self._firing:
            self._most = FEWEST
            self._foresee()

    def cut(self, engine: Sharer) -> None:
        """A run ends with the step that is under way."""
        step, turns = self._under_way(engine)
        if engine.issued + turns < engine.steps:
            engine.steps = engine.issued + turns
            if step < self._stop:
                self._stop, self._most = step, FEWEST
                self._arm()

    def passed(self, engine: Sharer) -> int:
        """Number of steps of a run that have ended before the current event."""
        return engine.issued - 1 + self._under_way(engine)[1]

    def stop(self, engine: Sharer) -> None:
        """End everything now, with the stages that an engine's step under way has passed."""
        if not self._stopped:
            self._settle(self._left())
            self._stopped = True
        place, now_s = self._order.index(engine), self.env._now
        compute_s = engine.compute_s(engine.issued - 1)
        for server, ends_s, seconds in zip(self.stages.servers, self._ends_s, compute_s, strict=True):
            server.free_at_s = min(server.free_at_s, now_s)
            if ends_s[place] <= now_s:
                server.busy_s += seconds

    def catch_up(self) -> None:
        """Let the devices know until when they have work."""
        last = self._left() + len(self._order)
        if self._order and not self._stopped:
            for server, ends_s in zip(self.stages.servers, self._ends_s, strict=True):
                server.free_at_s = ends_s[last - 1]

    def _left(self) -> int:
        """Number of steps that have left, with successors, before the current event."""
        ends_s, now_s = self._ends_s[-1], self.env._now
        left = bisect_right(ends_s, now_s) if self.env.priority >= self._priority else bisect_left(ends_s, now_s)
        return min(left, self._stop)

    def _under_way(self, engine: Sharer) -> tuple[int, int]:
        """The step of an engine that is under way now, and how often the engine had its turn before."""
        place, engines = self._order.index(engine), len(self._order)
        turns = max(0, -((place - self._left()) // engines))
        return place + turns * engines, turns

    def _settle(self, left: int) -> None:
        """Record steps that have left and entered; discard precomputed times beyond."""
        order, engines = self._order, len(self._order)
        if self._probes.operation:
            for step in range(left):
                engine = order[step % engines]
                self._tell(engine, engine.issued + step // engines, self._ends_s[-1][step], step + engines)
        for place, engine in enumerate(order):
            ended_s = self._ends_s[-1][place:left:engines]
            engine.issued += len(ended_s)
            engine.ends_s += ended_s
        for place, server in enumerate(self.stages.servers):
            self._ends_s[place] = ends_s = self._ends_s[place][left : left + engines]
            if ends_s:
                server.free_at_s = ends_s[-1]
        if left:
            first = left % engines
            self._order = order[first:] + order[:first]
        self._stop = 0

    def _foresee(self) -> None:
        """Find out when steps end, up to the first that ends a run."""
        order, columns_s = self._order, self._ends_s
        engines = len(order)
        ends = (place + engines * (engine.steps - engine.issued) for place, engine in enumerate(order))
        self._stop = stop = min(self._most, *ends)
        turns = cycle([Turn(engine) for engine in order] if stop else ())
        # The ends of the last stage, at which the next steps enter, become more in every round.
        for time_s, turn in islice(zip(columns_s[-1], turns, strict=False), stop):
            number = turn.number
            if number >= turn.until:
                turn.renew(columns_s)
            ready_s = time_s + turn.host_s
            for ends_s, fixed_s, slope_s in turn.stages:
                free_s = ends_s[-1]
                if free_s > ready_s:
                    ready_s = free_s
                ready_s += fixed_s + slope_s * number
                ends_s.append(ready_s)
            turn.number = number + turn.growth
        self._arm()

    def _arm(self) -> None:
        """A time that is in the queue already is passed over."""
        self._due_s = self._ends_s[-1][self._stop]
        self._tick.arm(self._due_s, self._priority)

    def _fire(self, _: Event) -> None:
        """A step ends, and its run unless it is just the last that was foreseen."""
        self._tick.callbacks = self._tick.actions
        if self.env._now != self._due_s or self._stopped:
            return
        self._due_s = -1.0
        self._settle(self._stop)
        engine = self._order[0]
        if engine.issued < engine.steps:
            self._most = min(2 * self._most, MOST)
        else:
            del self._order[0]
            engine.ends_s += [ends_s.pop(0) for ends_s in self._ends_s][-1:]
            self._firing = True
            engine.ended()
            self._firing = False
        if self._order:
            self._foresee()

    def _tell(self, engine: Sharer, step: int, issued_s: float, place: int) -> None:
        """Report the passes of a step of an engine's run, which has this number among all."""
        ready_s, batch, host_s = issued_s + engine.host_s, engine.after(step), engine.host_s
        for stage, op in enumerate(self.stages.passes):
            server, ends_s = self.stages.servers[2 * stage], self._ends_s[2 * stage]
            start_s = max(ready_s, ends_s[place - 1] if place else server.free_at_s)
            for hook in self._probes.operation:
                hook(Forward(op.team, op.plan, batch, host_s, op.name), start_s, ends_s[place])
            if stage + 1 < len(self.stages.passes):
                ready_s, host_s = self._ends_s[2 * stage + 1][place], 0.0
