"""A team's forward passes at high detail: an event at the end of every segment, and one after every collective."""

from __future__ import annotations

from collections.abc import Callable, Generator
from heapq import heappush
from typing import Any

from simpy.events import NORMAL, Event

from simsys.executors.communication.base import Exchange
from simsys.executors.core import Core
from simsys.model.work import Work
from simsys.ops import Compute, Forward
from simsys.parallel.layout import Group
from simsys.platform.environment import Environment

SAME_TIME = 1e-13
"""Times that differ by no more, relative to the clock, differ by the rounding of a few hundred additions."""

TimedSegment = tuple[str, float, Exchange | None, float]
"""Its name, its computation time, the collective after it or None, and its duration on idle links."""


class PassRuns:
    """Executes the passes of a team, one at a time.

    Times are anchored: without contention, a segment ends at the start of the pass plus a sum of durations, not at a
    clock rounded at every layer. A pass immediately after another starts at the end computed in this way.

    Args:
        core: The core with hardware, time and probes.
        team: The ranks.
        segments: Segments of a pass, in order.
    """

    def __init__(self, core: Core, team: Group, segments: Callable[[Forward], list[TimedSegment]]) -> None:
        self._core, self._team, self._segments = core, team, segments
        self._devices = [core.platform.devices[rank] for rank in team.ranks]
        self._busy_before_s: list[float] = []
        self._under_way: list[TimedSegment] = []
        # A generator instead of methods, since its variables outlive the events: there are hundreds in every pass.
        playing = self._play()
        next(playing)
        self._go_on = playing.send
        self._callbacks = [self._go_on]

    def begin(self, op: Forward, ready_s: float | None, event: Event) -> None:
        """Start a pass; the one before must have ended.

        Args:
            op: The pass.
            ready_s: When the host is ready, if it is not to begin now.
            event: Fires at the end.
        """
        self._go_on((op, ready_s, event))

    def stop(self) -> None:
        """Begin no further segment of the pass under way; the GPUs have not been busy with it."""
        for device, busy_s in zip(self._devices, self._busy_before_s, strict=True):
            device.busy_s, device.free_at_s = busy_s, min(device.free_at_s, self._core.env._now)
        self._under_way.clear()

    def _play(self) -> Generator[None, Any, None]:
        """One pass after another, resumed by the events that it waits for."""
        core, env, probes, devices = self._core, self._core.env, self._core.probes, self._devices
        queue, serial, links_change = env._queue, env._eid, bool(core.platform.network.changes_s)
        tick, anchor_s, offset_s = _succeeding(env), 0.0, 0.0
        while True:
            op, ready_s, event = yield
            go_on, callbacks = self._go_on, self._callbacks
            segments, slowness = self._segments(op), core.compute_speed.begin_step(self._team)
            self._under_way, self._busy_before_s = segments, [device.busy_s for device in devices]
            started_s = now = env._now
            anchor_s += offset_s
            if abs(anchor_s - now) > SAME_TIME * now:
                anchor_s = now
            offset_s = op.host_s if ready_s is None else max(0.0, ready_s - anchor_s)
            tick.callbacks = callbacks
            heappush(queue, (max(now, anchor_s + offset_s), NORMAL, next(serial), tick))
            yield
            for name, alone_s, collective, exchange_s in segments:
                now, compute_s = env._now, alone_s * slowness
                offset_s += compute_s
                end_s = anchor_s + offset_s
                for device in devices:
                    if device.free_at_s <= now:
                        device.free_at_s = end_s
                        device.busy_s += compute_s
                    else:
                        busy_until_s = device.reserve(now, compute_s)
                        if busy_until_s > anchor_s + offset_s:
                            anchor_s, offset_s = busy_until_s, 0.0
                end_s = anchor_s + offset_s
                if probes.operation:
                    self._tell(name, end_s - compute_s, end_s)
                tick.callbacks = callbacks
                heappush(queue, (end_s, NORMAL, next(serial), tick))
                yield
                if collective is not None:
                    collective.start(go_on)
                    yield
                    # Continue from the closed form if the links were uncontended, so that steps leave no rounding.
                    if links_change:
                        exchange_s = collective.seconds(end_s)
                    now, closed_s = env._now, offset_s + exchange_s
                    if -SAME_TIME * now <= anchor_s + closed_s - now <= SAME_TIME * now:
                        offset_s = closed_s
                    else:
                        anchor_s, offset_s = now, 0.0
            for hook in probes.operation:
                hook(op, started_s, env._now)
            event.succeed()

    def _tell(self, name: str, start_s: float, end_s: float) -> None:
        for rank in self._team.ranks:
            op = Compute(rank, Work(), name)
            for hook in self._core.probes.operation:
                hook(op, start_s, end_s)


def _succeeding(env: Environment) -> Event:
    """An event that succeeds whenever it is put into the queue, again and again."""
    event = Event(env)
    event._ok, event._value = True, None
    return event
