"""Between high and medium: one abstraction without the other, to tell what each is worth.

They are for comparisons; no scenario can ask for them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from heapq import heappush
from typing import Any, NamedTuple

from simpy.events import NORMAL, Event

from simsys.costs.segment_cost import SegmentTime
from simsys.executors.ahead import ComputeAhead
from simsys.executors.closed_forms import ClosedForms
from simsys.executors.communicator import Recurring
from simsys.executors.high import HighDetail
from simsys.executors.steps.pass_queue import PassQueue
from simsys.ops import Forward, Pipelined
from simsys.parallel.layout import Group
from simsys.platform.events import At, Callback
from simsys.sums import ordered_sum

Stretches = Sequence[tuple[int, list[SegmentTime]]]
"""Parts of a model: how often each repeats, and its segments."""


class Phase(NamedTuple):
    """A part of a pass, one event for each of its halves.

    Args:
        compute_s: Computation on all GPUs of the team.
        exchange_s: A collective that takes so long, if it is a closed form.
        collective: One whose steps are carried out on the links, if there is one.
    """

    compute_s: float
    exchange_s: float = 0.0
    collective: Recurring | None = None


class MixedDetail(HighDetail):
    """Every rank a process, as at high; passes of serving teams consist of other phases."""

    stepwise = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.ends_s: dict[Group, float] = {}
        """Where each team's last pass ended, free of the clock's rounding."""

    @abstractmethod
    def phases(self, op: Forward, stretches: Stretches) -> list[Phase]:
        """Of what a pass through these stretches consists."""

    def pass_queue(self, team: Group) -> PassQueue:
        """The passes of a team, which run one after another."""
        found = self._queues.get(team)
        if found is None:
            found = self._queues[team] = PassQueue(self.env, MixedPasses(self))
        return found


class MacroOperations(ComputeAhead, MixedDetail):
    """Computation alone is folded: that of a pass is one event, then its collectives follow, step by step on links."""

    def phases(self, op: Forward, stretches: Stretches) -> list[Phase]:
        """All computation first."""
        compute_s, exchanges, communicator = 0.0, list[Phase](), self.communicator(op.team)
        for repeat, segments in stretches:
            compute_s += repeat * ordered_sum(segment.compute_s for segment in segments)
            exchanges += [
                Phase(0.0, 0.0, communicator.recurring(each.kind, each.nbytes))
                for each in segments
                if each.kind is not None and not communicator.trivial(each.nbytes)
            ] * repeat
        return [Phase(compute_s), *exchanges]


class AnalyticalCollectives(ClosedForms, MixedDetail):
    """Communication alone is folded: every layer is an event, and so is every collective, at its closed form's end."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.contention = ClosedForms.contention

    def phases(self, op: Forward, stretches: Stretches) -> list[Phase]:
        """Layer by layer."""
        self.tally.passed(op, op.batch)
        seconds, phases = self.communicator(op.team).seconds_from(self.env._now), list[Phase]()
        for repeat, segments in stretches:
            phases += [
                Phase(each.compute_s, seconds(each.kind, each.nbytes) if each.kind is not None else 0.0)
                for each in segments
            ] * repeat
        return phases

    def hand_on(self, op: Pipelined, stage: int, arrived: Callback) -> None:
        """The time of idle links."""
        At(self.env, self.env._now + self._hand_on(op, stage, self.env._now), arrived)


class BothAbstractions(ComputeAhead, AnalyticalCollectives):
    """Both are folded, but every rank is a process and nothing is told instead of simulated.

    This is for training; in serving, medium with ``serving.stepping`` is the same.
    """


class MixedPasses:
    """The passes of a team, for a `PassQueue`."""

    def __init__(self, executor: MixedDetail) -> None:
        self._executor = executor
        self._under_way: MixedPass | None = None

    def begin(self, op: Forward, ready_s: float | None, event: Event) -> None:
        """Start a pass."""
        self._under_way = MixedPass(self._executor, op, ready_s, event)

    def stop(self) -> None:
        """Begin no further phase of the pass under way; the GPUs have not been busy with it."""
        if self._under_way is not None:
            self._under_way.stop()


class MixedPass:
    """One forward pass, phase by phase; times are anchored as in `simsys.executors.steps.pass_run`.

    Args:
        executor: Says which phases there are, and runs the collectives.
        op: The pass.
        ready_s: When the host is ready, if it is not to begin now.
        event: Fires at the end.
    """

    def __init__(self, executor: MixedDetail, op: Forward, ready_s: float | None, event: Event) -> None:
        self._executor, self._op, self._env, self._event = executor, op, executor.env, event
        self._devices = [executor.platform.devices[rank] for rank in op.team.ranks]
        self._stopped = False
        self._busy_before_s = [device.busy_s for device in self._devices]
        self._slowness = executor.conditions.begin_step(op.team)
        self._phases, self._index = executor.phases(op, executor.pass_cost(op).by_segment(op.batch)), 0
        self._started_s = self._anchor_s = now = self._env._now
        previous_end_s = executor.ends_s.get(op.team, now)
        if abs(previous_end_s - now) <= 1e-13 * now:
            self._anchor_s = previous_end_s
        self._offset_s = op.host_s if ready_s is None else max(0.0, ready_s - self._anchor_s)
        self._tick = Event(self._env)
        self._tick._ok, self._tick._value = True, None
        self._arm(self._begin)

    def stop(self) -> None:
        """Begin no further phase; the GPUs have not been busy with it."""
        for device, busy_s in zip(self._devices, self._busy_before_s, strict=True):
            device.busy_s, device.free_at_s = busy_s, min(device.free_at_s, self._env._now)
        self._stopped = True

    def _arm(self, callback: Callback) -> None:
        self._tick.callbacks = [callback]
        time_s = max(self._env._now, self._anchor_s + self._offset_s)
        heappush(self._env._queue, (time_s, NORMAL, next(self._env._eid), self._tick))

    def _begin(self, event: Event) -> None:
        """Compute; a phase without computation begins with its collective at once."""
        if self._stopped:
            return
        if self._index == len(self._phases):
            self._finish()
            return
        phase = self._phases[self._index]
        self._index += 1
        then = self._exchange if phase.exchange_s or phase.collective is not None else self._begin
        if not phase.compute_s:
            then(event)
            return
        compute_s = phase.compute_s * self._slowness
        self._offset_s += compute_s
        end_s = self._anchor_s + self._offset_s
        for device in self._devices:
            device.free_at_s = end_s
            device.busy_s += compute_s
        self._arm(then)

    def _exchange(self, _: Event) -> None:
        phase = self._phases[self._index - 1]
        if phase.collective is None or self._stopped:
            self._offset_s += phase.exchange_s
            self._arm(self._begin)
        else:
            phase.collective.start(self._exchanged)

    def _exchanged(self, event: Event) -> None:
        """Go on from the closed form if the links were quiet, so that steps leave no rounding; else from now."""
        collective, now = self._phases[self._index - 1].collective, self._env._now
        assert collective is not None
        offset_s = self._offset_s + collective.seconds(self._anchor_s + self._offset_s)
        if abs(self._anchor_s + offset_s - now) <= 1e-13 * now:
            self._offset_s = offset_s
        else:
            self._anchor_s, self._offset_s = now, 0.0
        self._begin(event)

    def _finish(self) -> None:
        for hook in self._executor.probes.operation:
            hook(self._op, self._started_s, self._env._now)
        self._executor.ends_s[self._op.team] = self._anchor_s + self._offset_s
        self._event.succeed()
