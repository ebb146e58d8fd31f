"""High detail, the definition: every rank a process, every layer an event, every collective its steps on links."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from heapq import heappush
from typing import Any

from simpy.events import NORMAL, Event

from simsys.executors.communicator import Communicator
from simsys.executors.cost import SegmentTime
from simsys.executors.pass_queue import PassQueue, PipelineRun
from simsys.executors.queued import QueuedCollectives
from simsys.model.work import Work
from simsys.ops import Collective, Compute, Forward, Pipelined, Send, Transfer
from simsys.parallel.layout import Group
from simsys.platform.environment import At, Callback
from simsys.platform.schedule import Schedule


class HighDetail(QueuedCollectives):
    """Layers, ranks and transfers one by one; takes the arguments of `Executor`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.contention = self.platform.network.contention
        self.pass_ends_s: dict[Group, float] = {}
        """Where each team's last pass ended, free of the clock's rounding."""
        self._queues: dict[Group, PassQueue] = {}
        self._messages: dict[tuple[Group, Group, float], Schedule[Any]] = {}

    @staticmethod
    def stand_in(role: Sequence[int], rank: int) -> int:
        """Every rank stands for itself."""
        return rank

    def compute(self, op: Compute) -> Event:
        """One event at the end of the work on the rank's GPU."""
        device = self.platform.devices[op.rank]
        seconds = self.conditions.seconds(op, self.now(op.rank))
        end_s = device.reserve(self.env._now, seconds)
        for hook in self.probes.operation:
            hook(op, end_s - seconds, end_s)
        return At(self.env, end_s)

    def carry(self, communicator: Communicator, op: Collective, done: Callback) -> None:
        """Carry out the steps on the links."""
        communicator.start(op.kind, op.nbytes, done)

    def forward(self, op: Forward) -> Event:
        """A chain of events through the layers, each on every rank of the team."""
        return self.pass_queue(op.team).add(op)

    def pipelined(self, op: Pipelined) -> Event:
        """Such a chain on each stage, and transfers between them."""
        return PipelineRun(self, op).event

    def stop(self) -> None:
        """Segments under way end, since others may wait for their links."""
        for queue in self._queues.values():
            queue.stop()

    def pass_queue(self, team: Group) -> PassQueue:
        """The passes of a team, which run one after another."""
        found = self._queues.get(team)
        if found is None:
            found = self._queues[team] = PassQueue(self.env, partial(PassRun, self))
        return found

    def hand_on(self, op: Pipelined, stage: int, arrived: Callback) -> None:
        """Send the hidden states from each rank of a stage to its neighbour in the next."""
        nbytes = self.handed_on_bytes(op, stage)
        pairs = op.transfers(stage)
        key = op.passes[stage].team, op.passes[stage + 1].team, nbytes
        found = self._messages.get(key)
        if found is None:
            steps = [(pairs, nbytes, 1, 0.0)] if nbytes else []
            found = self._messages[key] = self.platform.network.schedule(steps)
        for src, dst in pairs:
            self.platform.network.traffic.between(src, dst).nbytes += nbytes
        found.start(arrived)

    def send(self, op: Send) -> Event:
        """Transfer over the links of the route once the rank's computation is done."""
        delivered = self.mail.event(op.rank, op.dst, op.tag, receiving=False)
        start_s = self.now(op.rank)

        def arrived(_: Event) -> None:
            for hook in self.probes.operation:
                hook(op, start_s, self.env._now)
            delivered.succeed(start_s)

        def depart(_: Event | None = None) -> None:
            _then(self.platform.network.transfer(op.rank, op.dst, op.nbytes), arrived)

        if self.platform.devices[op.rank].free_at_s < self.env._now:
            depart()
        else:  # also at the very moment the computation ends, when an earlier message may be about to depart
            At(self.env, start_s, depart)
        return delivered

    def transfer(self, op: Transfer) -> Event:
        """All messages over the links at once."""
        arrived, network, started_s = Event(self.env), self.platform.network, self.env._now

        def done(_: Event) -> None:
            for hook in self.probes.operation:
                hook(op, started_s, self.env._now)
            arrived.succeed()

        for src, dst in op.pairs:
            network.traffic.between(src, dst).nbytes += op.nbytes
        network.schedule([(op.pairs, op.nbytes, 1, 0.0)]).start(done)
        return arrived


class PassRun:
    """One forward pass: a chain of events, one per segment, that re-arms a single event object.

    Times are anchored: as long as nothing disturbs the pass, a segment ends at the start of the pass plus a sum
    of durations, not at a clock that is rounded anew at every layer, and a pass that follows another at once
    starts where that one ended by this account.

    Args:
        executor: Runs the collectives.
        op: The pass.
        ready_s: When the host is ready, if it is not to begin now.
        event: Fires at the end.
    """

    __slots__ = (
        "_advance",
        "_anchor_s",
        "_devices",
        "_env",
        "_exchange",
        "_executor",
        "_index",
        "_offset_s",
        "_op",
        "_segments",
        "_slowness",
        "_started_s",
        "_tick",
        "event",
    )

    def __init__(self, executor: HighDetail, op: Forward, ready_s: float | None, event: Event) -> None:
        self._executor, self._op, self._env = executor, op, executor.env
        self._devices = [executor.platform.devices[rank] for rank in op.team.ranks]
        self._segments: list[SegmentTime] = []
        for repeat, segments in executor.pass_cost(op).stretches(op.batch):
            self._segments += segments * repeat
        self._slowness = executor.conditions.begin_step(op.team)
        self._index = 0
        self._started_s = now = self._env._now
        previous_end_s = executor.pass_ends_s.get(op.team, now)
        self._anchor_s = previous_end_s if _same_time(previous_end_s, now) else now
        self._offset_s = op.host_s if ready_s is None else max(0.0, ready_s - self._anchor_s)
        self.event = event
        # The callback lists are made once; the loop hands them back to the tick at every step.
        self._advance: list[Callback] = [self._compute]
        self._exchange: list[Callback] = [self._communicate]
        self._tick = Event(self._env)
        self._tick._ok, self._tick._value = True, None
        self._arm(max(now, self._anchor_s + self._offset_s), self._advance)

    def stop(self) -> None:
        """Begin no further segment, and take back what those so far have counted as busy."""
        busy_s = sum(segment.compute_s * self._slowness for segment in self._segments[: self._index])
        for device in self._devices:
            device.busy_s -= busy_s
            device.free_at_s = min(device.free_at_s, self._env._now)
        del self._segments[self._index :]

    def _arm(self, time_s: float, callbacks: list[Callback]) -> None:
        env, tick = self._env, self._tick
        tick.callbacks = callbacks
        heappush(env._queue, (time_s, NORMAL, next(env._eid), tick))

    def _compute(self, _: Event) -> None:
        """Start the next segment on every rank, or end the pass."""
        segments, index = self._segments, self._index
        if index == len(segments):
            self._finish()
            return
        segment = segments[index]
        self._index = index + 1
        now, compute_s = self._env._now, segment.compute_s * self._slowness
        self._offset_s += compute_s
        end_s = self._anchor_s + self._offset_s
        for device in self._devices:
            if device.free_at_s <= now:
                device.free_at_s = end_s
                device.busy_s += compute_s
            else:
                busy_until_s = device.reserve(now, compute_s)
                if busy_until_s > self._anchor_s + self._offset_s:
                    self._anchor_s, self._offset_s = busy_until_s, 0.0
        end_s = self._anchor_s + self._offset_s
        if self._executor.probes.operation:
            self._tell(segment.name, end_s - compute_s, end_s)
        self._arm(end_s, self._exchange if segment.nbytes else self._advance)

    def _communicate(self, _: Event) -> None:
        segment = self._segments[self._index - 1]
        assert segment.kind is not None
        self._executor.communicator(self._op.team).start(segment.kind, segment.nbytes, self._exchanged)

    def _exchanged(self, _: Event) -> None:
        """Go on from the closed form if the links were quiet, so that steps leave no rounding; else from now."""
        segment = self._segments[self._index - 1]
        assert segment.kind is not None
        now = self._env._now
        communicator, start_s = self._executor.communicator(self._op.team), self._anchor_s + self._offset_s
        offset_s = self._offset_s + communicator.seconds(segment.kind, segment.nbytes, start_s)
        if _same_time(self._anchor_s + offset_s, now):
            self._offset_s = offset_s
        else:
            self._anchor_s, self._offset_s = now, 0.0
        self._compute(self._tick)

    def _tell(self, name: str, start_s: float, end_s: float) -> None:
        for rank in self._op.team.ranks:
            op = Compute(rank, Work(), name)
            for hook in self._executor.probes.operation:
                hook(op, start_s, end_s)

    def _finish(self) -> None:
        for hook in self._executor.probes.operation:
            hook(self._op, self._started_s, self._env._now)
        self._executor.pass_ends_s[self._op.team] = self._anchor_s + self._offset_s
        self.event.succeed()


def _same_time(a_s: float, b_s: float) -> bool:
    """Whether two times differ by no more than the rounding of a few hundred additions."""
    return abs(a_s - b_s) <= 1e-13 * b_s


def _then(event: Event, callback: Callback) -> None:
    event.callbacks.append(callback)
