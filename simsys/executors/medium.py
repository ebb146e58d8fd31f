"""Medium detail: one stand-in per role, macro operations, closed-form collectives.

A computation costs no event: the stand-in runs ahead of the clock on its own GPU and meets the clock again at
the next communication or wait (temporal decoupling, as in IEEE 1666 SystemC TLM-2.0, §10). Since the GPU is a
FIFO server that nobody else uses, this changes no time.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

from simpy.events import Event

from simsys.executors.base import Executor
from simsys.executors.communicator import Meeting
from simsys.executors.programs import (
    MemoryCourse,
    PassTimes,
    ProgramMeeting,
    ProgramTimes,
    StuckError,
    longest_paths,
    memory_course,
)
from simsys.model.work import Work
from simsys.ops import Collective, Compute, Forward, Pass, PassOperation, Program, Send
from simsys.parallel.layout import Group
from simsys.platform.environment import At


class MediumDetail(Executor):
    """Phases instead of layers, roles instead of ranks; takes the arguments of `Executor`."""

    contention = "none (idle links)"
    may_repeat = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._programs: dict[Group, ProgramMeeting] = {}
        self._times_of: dict[Pass, PassTimes] = {}
        self._courses: dict[int, tuple[object, MemoryCourse]] = {}  # by identity of the passes, which it holds
        self._hops_s: dict[tuple[int, int, float], float] = {}

    @staticmethod
    def stand_in(role: Sequence[int], rank: int) -> int:
        """The first rank of a role stands for all of it."""
        return role[0]

    def compute(self, op: Compute) -> Event:
        """Advance the rank's GPU; the event has already happened."""
        device = self.platform.devices[op.rank]
        seconds = self._work_cost.seconds(op.work, device.spec)
        end_s = device.reserve(self.env._now, seconds)
        for hook in self.probes.operation:
            hook(op, end_s - seconds, end_s)
        return self.env.done

    def run_collective(self, meeting: Meeting, ready_s: float) -> None:
        """One event, at the end of the closed form."""
        op = meeting.op
        communicator = self.communicator(op.group)
        start_s = max(ready_s, communicator.free_at_s)
        communicator.free_at_s = end_s = start_s + communicator.seconds(op.kind, op.nbytes)
        for hook in self.probes.operation:
            hook(op, start_s, end_s)
        self.env.fire_at(end_s, meeting.event)

    def forward(self, op: Forward) -> Event:
        """The whole pass as one event."""
        device = self.platform.devices[op.rank]
        compute_s, exchange_s = self.pass_cost(op).seconds(op.batch, self.communicator(op.team).seconds)
        start_s = max(self.env._now, device.free_at_s)
        device.free_at_s = end_s = start_s + (op.host_s + compute_s + exchange_s)
        device.busy_s += compute_s
        for hook in self.probes.operation:
            hook(op, start_s, end_s)
        return At(self.env, end_s)

    def program(self, op: Program) -> Event:
        """All programs of a group at once, as a recurrence over the ends of passes: no event for any pass."""
        meeting = self._programs.setdefault(op.group, ProgramMeeting(self.env, self._members(op.group)))
        event = meeting.join(op, self.now(op.rank))
        if meeting.complete:
            del self._programs[op.group]
            self._run_programs(meeting)
        return event

    def _members(self, group: Group) -> int:
        return len({self._stand_in[rank] for rank in group.ranks})

    def _run_programs(self, meeting: ProgramMeeting) -> None:
        """Evaluate, advance every member's GPU, and deliver the messages that are for what comes after."""
        try:
            outcome = longest_paths(meeting.programs, meeting.ready_s, self._pass_times, self._hop_seconds)
        except StuckError:  # a message may come from what follows another rank's program: play them, event by event
            for op in meeting.programs:
                self.env.process(self._play_and_tell(op, meeting.events[op.rank]))
            return
        for op in meeting.programs:
            device = self.platform.devices[op.rank]
            start_s, times = meeting.ready_s[op.rank], outcome.totals[op.rank]
            device.free_at_s = outcome.end_s[op.rank]
            device.busy_s += times.compute_s
            self._tell(op, start_s, times)
            self._hold(op, start_s, outcome.end_s[op.rank])
        for (src, dst, tag), arrival_s in outcome.undelivered.items():
            self.env.fire_at(arrival_s, self._message(src, dst, tag, receiving=False))
        for event in meeting.events.values():
            event.succeed()

    def _hold(self, op: Program, start_s: float, end_s: float) -> None:
        """Take what the passes hold at their peak for as long as they last, and keep what they leave behind."""
        _, course = self._courses.get(id(op.passes)) or (None, None)
        if course is None:
            course = memory_course(op.passes)
            self._courses[id(op.passes)] = op.passes, course
        if not course.peak:
            return
        memory = self.platform.devices[op.rank].memory
        for name, nbytes in course.peak.items():
            memory.allocate(name, nbytes)
        self._tell_memory(op.rank, start_s)
        for name, nbytes in course.peak.items():
            memory.free(name, nbytes - course.end.get(name, 0.0))
        self._tell_memory(op.rank, end_s)

    def _play_and_tell(self, op: Program, ended: Event) -> Generator[Event, Any, None]:
        yield from self._play(op)
        ended.succeed()

    def _pass_times(self, each: Pass) -> PassTimes:
        """Computation and communication of a pass, added up once."""
        found = self._times_of.get(each)
        if found is None:
            parts = [self._operation_times(op) for op in each.run]
            sums = (sum(column) for column in zip((0.0, 0.0, 0.0), *parts, strict=True))
            found = self._times_of[each] = PassTimes(*sums)
        return found

    def _operation_times(self, op: PassOperation) -> PassTimes:
        if isinstance(op, Compute):
            return PassTimes(self._work_cost.seconds(op.work, self.platform.devices[op.rank].spec), 0.0, 0.0)
        if isinstance(op, Collective):
            return PassTimes(0.0, self.communicator(op.group).seconds(op.kind, op.nbytes), 0.0)
        compute_s = self._operation_times(op.compute).compute_s
        exchange_s = self._operation_times(op.collective).exchange_s
        return PassTimes(compute_s, max(0.0, exchange_s - compute_s), min(compute_s, exchange_s))

    def _hop_seconds(self, op: Send) -> float:
        key = op.rank, op.dst, op.nbytes
        found = self._hops_s.get(key)
        if found is None:
            latency_s, bytes_per_s = self.platform.network.idle_path([(op.rank, op.dst)])
            found = self._hops_s[key] = latency_s + op.nbytes / bytes_per_s
        return found

    def _tell(self, op: Program, start_s: float, times: ProgramTimes) -> None:
        """Tell the probes the sums: one computation, one exchange that lasts beyond it, and one message."""
        computed_s = start_s + times.compute_s
        for hook in self.probes.operation:
            hook(Compute(op.rank, Work(), op.name), start_s, computed_s)
            if times.exchange_s or times.hidden_s:
                exchange = next(_collectives(op))
                hook(exchange, computed_s - times.hidden_s, computed_s + times.exchange_s)
            if times.message_s:
                message = next(each.send for each in op.passes if each.send is not None)
                hook(message, start_s, start_s + times.message_s)

    def send(self, op: Send) -> Event:
        """One event when the message has arrived over an idle route."""
        event = self._message(op.rank, op.dst, op.tag, receiving=False)
        start_s = self.now(op.rank)
        latency_s, bytes_per_s = self.platform.network.idle_path([(op.rank, op.dst)])
        end_s = start_s + latency_s + op.nbytes / bytes_per_s
        for hook in self.probes.operation:
            hook(op, start_s, end_s)
        self.env.fire_at(end_s, event)
        return event


def _collectives(op: Program) -> Iterator[Collective]:
    """The collectives of a program's passes."""
    for each in (operation for a_pass in op.passes for operation in a_pass.run):
        if not isinstance(each, Compute):
            yield each if isinstance(each, Collective) else each.collective
