"""Equal micro-batches in a row, of which only some are simulated.

With gradient accumulation and in pipelines, the ranks of a job do the same for every micro-batch, and after a few of
them their times repeat exactly. What ranks do for one micro-batch is a cycle; in an interleaved schedule, for as many
micro-batches as there are stages. If cycles are equal to those before them in every operation of every rank, and leave
the same work in flight, then all further cycles are equal, too, since the simulation is deterministic. They are left
out, and counted. Times may alternate, so a few cycles together may equal the same number of cycles before them.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from simsys.executors.core import Core
from simsys.executors.meets import Noted
from simsys.ops import Collective, Operation
from simsys.parallel.cycle import Cycle, Step, cycle_of
from simsys.probes import Probe

SAME = 1e-12
"""Largest relative difference of equal durations."""
ROUNDING = 16
"""Largest difference in units of the clock's last place, which is more late in a long run."""
MOST = 4
"""Cycles that may repeat together."""


@dataclass
class Course:
    """How far a rank has come in a sequence of steps.

    Args:
        cycle: The cycle of the sequence.
        place: Place of the step that the rank has begun last.
        skip: Number of steps to leave out after that one.
    """

    cycle: Cycle
    place: int = 0
    skip: int = 0


Spans = dict[Hashable, list[tuple[float, float]]]
"""Start and end of operations (s), by group or rank."""


@dataclass(frozen=True)
class State:
    """The state of the simulation at the beginning of a cycle.

    Args:
        now_s: The simulated time.
        places: Place of each rank in its sequence.
        clocks_s: For each rank, the end of its computation, and pending slow-downs of it, relative to the time.
        memory_bytes: Memory in use of each rank.
        in_flight: Number of operations that have been issued and have not ended, by group or rank.
        busy_s: Computation time of each rank.
        sent_bytes: Bytes sent so far, by account.
        noted: What is known of contention.
    """

    now_s: float
    places: Mapping[int, int]
    clocks_s: Sequence[float]
    memory_bytes: Sequence[float]
    in_flight: Sequence[int]
    busy_s: Sequence[float]
    sent_bytes: Sequence[float]
    noted: Noted


class Trace(Probe):
    """The operations of a cycle, by group or rank."""

    indispensable = True

    def __init__(self) -> None:
        self.spans: Spans = {}

    def operation(self, op: Operation, started_s: float, ended_s: float) -> None:
        """Record the time of an operation."""
        key = op.group if isinstance(op, Collective) else op.rank
        spans = self.spans.get(key)
        if spans is None:
            spans = self.spans[key] = []
        spans.append((started_s, ended_s))

    def take(self) -> Spans:
        """The record; a new one begins."""
        spans, self.spans = self.spans, {}
        return spans


@dataclass
class _Record:
    """Cycles that have been simulated: states at their beginnings and ends, and the operations in between."""

    states: list[State] = field(default_factory=list)
    spans: list[Spans] = field(default_factory=list)


class Cycles:
    """Leaves out equal cycles of an iteration.

    Args:
        core: The services of the executor.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._trace = Trace()
        self._cycles: dict[int, tuple[Sequence[Step], Cycle | None]] = {}  # by identity of the steps, which it holds
        self._courses: dict[int, Course] = {}
        self._left_out: dict[int, int] = {}  # by rank, micro-batches of this iteration
        self._record: _Record | None = None
        self._leader = -1
        self._left_out_s = 0.0

    def begin(self, *, wanted: bool) -> None:
        """An iteration begins.

        Args:
            wanted: Whether cycles may be left out: nothing but the work of the ranks changes their times.
        """
        self._courses.clear()
        self._left_out.clear()
        self._record, self._left_out_s = _Record() if wanted else None, 0.0
        self._leader = self._core.ranks()[0]

    def end(self) -> float:
        """The iteration ends; returns the time of cycles that were left out (s)."""
        self._close()
        self._core.idle.meets.end_iteration()
        return self._left_out_s

    def places(self, rank: int, steps: Sequence[Step]) -> Iterator[tuple[int, int]]:
        """The places of a sequence of steps, without those that are left out; see `Rank.steps_of`."""
        cycle = self._cycle(steps) if self._record is not None else None
        if cycle is None:
            yield from ((place, self._left_out.get(rank, 0)) for place in range(len(steps)))
            return
        course, place = Course(cycle), 0
        self._courses[rank] = course
        while place < len(steps):
            course.place = place
            if rank == self._leader and cycle.start <= place < cycle.end and not (place - cycle.start) % cycle.steps:
                self._cycle_begins()
            place, course.skip = place + course.skip, 0
            yield place, self._left_out.get(rank, 0)
            place += 1
        self._courses.pop(rank, None)

    def _cycle(self, steps: Sequence[Step]) -> Cycle | None:
        """The cycle of a sequence, found once."""
        _, found = self._cycles.get(id(steps)) or (None, None)
        if found is None:
            found = cycle_of(steps)
            self._cycles[id(steps)] = steps, found
        return found

    def _cycle_begins(self) -> None:
        """The first rank begins a cycle: compare the last two."""
        record = self._record
        if record is None or len(self._courses) < len(self._core.ranks()):
            return
        if len({course.cycle.micro_batches for course in self._courses.values()}) > 1:
            return
        if not record.states:
            self._core.probes.add(self._trace)
        record.spans.append(self._trace.take())
        record.states.append(self._state())
        del record.states[: -2 * MOST - 1], record.spans[: -2 * MOST]
        for cycles in range(1, 1 + (len(record.states) - 1) // 2):
            if self._repeats(record, cycles):
                self._leave_out(record.states[-1 - cycles], record.states[-1], cycles)
                return

    def _state(self) -> State:
        core = self._core
        ranks, now_s = core.ranks(), core.env.now
        devices = [core.platform.devices[rank] for rank in ranks]
        waiting = [len(each.turns) + each.meetings.under_way for each in core.communicators()]
        return State(
            now_s,
            {rank: self._courses[rank].place for rank in ranks},
            [seconds for device in devices for seconds in (max(0.0, device.free_at_s - now_s), device.lost_s)],
            [device.memory.in_use_bytes for device in devices],
            [*waiting, *(stream.issued for stream in core.streams.values())],
            core.busy_seconds(ranks),
            core.sent_bytes(),
            core.idle.meets.noted(),
        )

    def _repeats(self, record: _Record, cycles: int) -> bool:
        """Whether the last few cycles equal those before them, and leave the same work in flight."""
        first, second, third = record.states[-1 - 2 * cycles :: cycles]
        seconds = third.now_s - second.now_s
        rounding_s = rounding_of(seconds, third.now_s)
        if abs(second.now_s - first.now_s - seconds) > rounding_s:
            return False
        steps = {rank: cycles * course.cycle.steps for rank, course in self._courses.items()}
        for one, other in ((first, second), (second, third)):
            if any(other.places[rank] - one.places[rank] != each for rank, each in steps.items()):
                return False
        if second.in_flight != third.in_flight or not _close(second.clocks_s, third.clocks_s, rounding_s):
            return False
        if not _close(second.memory_bytes, third.memory_bytes, 1e-9 * max(third.memory_bytes)):
            return False
        pairs = zip(record.spans[-2 * cycles : -cycles], record.spans[-cycles:], strict=True)
        return all(_same(one, other, seconds, rounding_s) for one, other in pairs)

    def _leave_out(self, before: State, after: State, cycles: int) -> None:
        """Leave out what equals the cycles between two states, as often as every rank may."""
        courses, core = self._courses, self._core
        count = min(
            (course.cycle.end - course.place - (rank != self._leader)) // (cycles * course.cycle.steps)
            for rank, course in courses.items()
        )
        if count < 1:
            return
        for rank, course in courses.items():
            course.skip = count * cycles * course.cycle.steps
            self._left_out[rank] = count * cycles * course.cycle.micro_batches
        self._close()
        seconds, ranks = after.now_s - before.now_s, core.ranks()
        self._left_out_s = count * seconds
        busy_s = [later - earlier for earlier, later in zip(before.busy_s, after.busy_s, strict=True)]
        earlier_bytes = [*before.sent_bytes, *[0.0] * (len(after.sent_bytes) - len(before.sent_bytes))]
        sent_bytes = [later - earlier for earlier, later in zip(earlier_bytes, after.sent_bytes, strict=True)]
        core.count_again(ranks, count, busy_s=busy_s, sent_bytes=sent_bytes)
        core.idle.meets.repeat(before.noted, count, seconds)
        for rank in ranks:
            for hook in core.probes.cycles_left_out:
                hook(rank, count, before.now_s, after.now_s)

    def _close(self) -> None:
        """Compare no further cycles of this iteration."""
        if self._record is not None and self._record.states:
            self._core.probes.remove(self._trace)
            self._trace.take()
        self._record = None


def rounding_of(seconds: float, now_s: float) -> float:
    """By how much equal durations may differ at a simulated time, by rounding."""
    return SAME * seconds + ROUNDING * math.ulp(now_s)


def _close(some: Sequence[float], others: Sequence[float], rounding: float) -> bool:
    return len(some) == len(others) and all(
        abs(one - other) <= rounding for one, other in zip(some, others, strict=True)
    )


def _same(some: Spans, others: Spans, later_s: float, rounding_s: float) -> bool:
    """Whether the other spans are the same ones, `later_s` later."""
    return some.keys() == others.keys() and all(
        len(spans) == len(others[key])
        and all(
            abs(start_s + later_s - other_start_s) <= rounding_s and abs(end_s + later_s - other_end_s) <= rounding_s
            for (start_s, end_s), (other_start_s, other_end_s) in zip(spans, others[key], strict=True)
        )
        for key, spans in some.items()
    )
