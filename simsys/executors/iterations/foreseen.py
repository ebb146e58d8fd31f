"""Programs of training passes foreseen: all ranks of a group at once, without any event for any pass."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from simpy.events import Event

from simsys.executors.communication.base import Communication
from simsys.executors.communication.closed_form import ClosedForms
from simsys.executors.core import Core
from simsys.executors.iterations.memory_use import MemoryUse, memory_use
from simsys.executors.iterations.pass_sums import PassSums
from simsys.executors.iterations.pass_times import PassTimes
from simsys.executors.iterations.played import PlayedPrograms
from simsys.executors.iterations.programs import Course, Messages, Outcome, ProgramMeeting, StuckError, longest_paths
from simsys.executors.uses import Use
from simsys.ops import Collective, Compute, Overlapped, Pass, PassOperation, Program, Send
from simsys.parallel.layout import Group
from simsys.platform.events import At

MOST_OBSERVED = 200_000
"""Operations of the programs of a group that are carried out one by one for an observer: a few seconds."""


class ForeseenPrograms(PlayedPrograms):
    """A recurrence over the ends of passes on idle links; arguments as for its parent."""

    def __init__(self, core: Core, communication: Communication) -> None:
        super().__init__(core, communication)
        self._sums = PassSums(core)
        self._programs: dict[Group, ProgramMeeting] = {}
        self._uses: dict[int, tuple[object, MemoryUse]] = {}  # by identity of the passes, which it holds
        self._meets: dict[int, tuple[object, bool]] = {}  # likewise
        self._hops_s: dict[tuple[int, int, float], float] = {}
        self._exchanges: dict[Pass, Sequence[tuple[PassOperation, Collective | None]]] = {}
        self._epoch = 0  # state of the hardware at the start of the timed programs

    def carry_out(self, each: Pass) -> Generator[Event, Any, None]:
        """Collectives without other simulated ranks end ahead of the clock; the rank waits once, for the last one."""
        closed, ended_s = self.communication, 0.0
        if self.own is not None or not isinstance(closed, ClosedForms):
            yield from super().carry_out(each)
            return
        for op, exchange in self._exchanges_of(each):
            if exchange is None or self._held_up(exchange):
                yield self.start(op)
                continue
            ended_s = closed.carried_out(exchange, self.now(op.rank))
            if isinstance(op, Overlapped):
                yield self.start(op.compute)
            device = self.platform.devices[op.rank]
            device.free_at_s = max(device.free_at_s, ended_s)
        if ended_s > self.env.now:
            yield At(self.env, ended_s)

    def _exchanges_of(self, each: Pass) -> Sequence[tuple[PassOperation, Collective | None]]:
        """The operations of a pass, found once, each with its collective if no other simulated rank joins that."""
        found = self._exchanges.get(each)
        if found is None:
            found = self._exchanges[each] = [(op, self._alone(op)) for op in each.run]
        return found

    def _alone(self, op: PassOperation) -> Collective | None:
        if isinstance(op, Compute):
            return None
        exchange = op if isinstance(op, Collective) else op.collective
        communicator = self.communicator(exchange.group)
        alone = communicator.members == 1 and exchange.rank in exchange.group.ranks
        return exchange if alone and not communicator.trivial(exchange.nbytes) else None

    def _held_up(self, op: Collective) -> bool:
        """Whether collectives of its group that the rank has issued before wait for something else."""
        stream = self.core.streams.get((op.rank, op.group)) if self.core.streams else None
        return stream is not None and stream.held_up

    def program(self, op: Program) -> Event:
        """All programs of a group at once, as a recurrence over the ends of passes: no event for any pass."""
        meeting = self._programs.setdefault(op.group, ProgramMeeting(self.env, self.members(op.group)))
        event = meeting.join(op, self.now(op.rank))
        if meeting.complete:
            del self._programs[op.group]
            self._run_programs(meeting)
        return event

    def _run_programs(self, meeting: ProgramMeeting) -> None:
        """Evaluate the recurrence, advance every member's GPU, and deliver messages for later operations."""
        try:
            if self._observed(meeting) or any(self._meets_others(op) for op in meeting.programs):
                raise StuckError
            outcome = self._undisturbed(meeting)
        except (
            StuckError
        ):  # observed, or a message may come from what follows another rank's program: play them, event by event
            for op in meeting.programs:
                self.env.process(self._play_and_tell(op, meeting.events[op.rank]))
            return
        for op in meeting.programs:
            device, course = self.platform.devices[op.rank], outcome.courses[op.rank]
            device.free_at_s = course.end_s
            device.busy_s += course.times.busy_s
            self._tell(op, meeting.ready_s[op.rank], course)
            self.idle.tally.ran(course.passes)
            self._hold(op, meeting.ready_s[op.rank], course.end_s)
        self._note_uses(meeting, outcome)
        for (src, dst, tag), (sent_s, arrived_s) in outcome.undelivered.items():
            self.env.fire_at(arrived_s, self.mail.event(src, dst, tag, receiving=False), sent_s)
        for event in meeting.events.values():
            event.succeed()

    def _observed(self, meeting: ProgramMeeting) -> bool:
        """Whether an observer wants to hear of each pass, and there are not too many operations for that."""
        return self.core.each_pass and sum(map(operations, meeting.programs)) <= MOST_OBSERVED

    def _note_uses(self, meeting: ProgramMeeting, outcome: Outcome) -> None:
        """Record link use by programs: messages one by one, collectives by total time."""
        for rank, course in outcome.courses.items():
            self._note_exchanges(course.times, meeting.ready_s[rank], course.end_s)
        messages: dict[Use, Messages] = {}
        for (src, dst, _), each in outcome.messages.items():
            messages.setdefault(self.idle.lanes.use(src, dst, self.idle.meets), Messages(each.seconds)).add(each)
        self.idle.meets.note_messages(
            (use, each.departures_s, each.seconds, each.exposed_s())
            for use, each in messages.items()
            if each.departures_s
        )

    def _note_exchanges(self, times: PassTimes, start_s: float, end_s: float) -> None:
        """Note the collectives of one rank's passes, which come one after another."""
        uses = [
            (self.communicator(each.op.group).use(each.op.kind, each.op.nbytes, self.idle.meets), each)
            for each in times.exchanges.values()
        ]
        self.idle.meets.note_in_turn([(use, each.seconds, each.exposed_s) for use, each in uses], start_s, end_s)

    def _undisturbed(self, meeting: ProgramMeeting) -> Outcome:
        """Follow the programs on hardware that stays as it is now; raises StuckError if it does not."""
        start_s = self._sums.as_of_s = min(meeting.ready_s.values())
        platform, changed = self.platform, self.compute_speed.iterations_vary
        if changed or platform.epoch(start_s) != self._epoch:
            self._epoch = platform.epoch(start_s)
            self._sums.forget()
            self._hops_s.clear()
        outcome = longest_paths(meeting.programs, meeting.ready_s, self._sums.of, self._hop_seconds)
        if platform.epoch(max(course.end_s for course in outcome.courses.values())) != self._epoch:
            raise StuckError
        return outcome

    def _hold(self, op: Program, start_s: float, end_s: float) -> None:
        """Allocate the peak memory of the passes for their duration, then keep the rest."""
        _, use = self._uses.get(id(op.passes)) or (None, None)
        if use is None:
            use = memory_use(op.passes)
            self._uses[id(op.passes)] = op.passes, use
        if not use.peak:
            return
        memory = self.platform.devices[op.rank].memory
        for name, nbytes in use.peak.items():
            memory.allocate(name, nbytes)
        self.core.tell_memory(op.rank, start_s)
        for name, nbytes in use.peak.items():
            memory.free(name, nbytes - use.end.get(name, 0.0))
        self.core.tell_memory(op.rank, end_s)

    def _meets_others(self, op: Program) -> bool:
        """Whether some pass has a collective with ranks of other roles, which may come later than this one."""
        found = self._meets.get(id(op.passes))
        if found is None:
            groups = {each.group for a_pass in set(op.passes) for each in a_pass.collectives}
            found = self._meets[id(op.passes)] = op.passes, any(self.members(group) > 1 for group in groups)
        return found[1]

    def _play_and_tell(self, op: Program, ended: Event) -> Generator[Event, Any, None]:
        yield from self.play(op)
        ended.succeed()

    def _hop_seconds(self, op: Send) -> float:
        key = op.rank, op.dst, op.nbytes
        found = self._hops_s.get(key)
        if found is None:
            found = self._hops_s[key] = self.idle.lanes.message_s(op.rank, op.dst, op.nbytes, self._sums.as_of_s)
        return found

    def _tell(self, op: Program, start_s: float, course: Course) -> None:
        """Report sums to the probes, and then waiting; all messages count as one that arrives with the last."""
        now_s = self._sums.report(op.rank, op.name, course.times, start_s)
        if course.message_s:
            message = next(each.send for each in op.passes if each.send is not None)
            for hook in self.probes.operation:
                hook(message, course.last_s - course.message_s, course.last_s)
        awaited = next((each.receive for each in op.passes if each.receive is not None), None)
        if course.waited_s and awaited is not None:  # else for its own messages to arrive, which were reported
            for wait_hook in self.probes.waited:
                wait_hook(awaited, now_s, course.end_s - course.in_flight_s, course.end_s)


def operations(op: Program) -> int:
    """Number of computations, collectives and messages of a program."""
    sizes = {id(each): len(each.run) + (each.send is not None) for each in set(op.passes)}
    return sum(sizes[id(each)] for each in op.passes)
