"""When the passes of several ranks end, if nothing else disturbs them: a longest path through their messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from simpy.events import Event

from simsys.ops import Allocate, Pass, Program, Release, Send
from simsys.platform.environment import Environment

Channel = tuple[int, int, Hashable]
"""Source, destination and tag of the messages of a pass, all micro-batches alike."""
Box = dict[Hashable, Any]
"""What is in a channel, by micro-batch: a message's time of arrival (s), or the walker that waits for the message."""
Walker = Generator[tuple[Box, Hashable], None, None]
"""Follows one rank; yields what it has to wait for."""


class PassTimes(NamedTuple):
    """Computation of one pass, communication that it waits for, and communication beside computation, in seconds."""

    compute_s: float
    exchange_s: float
    hidden_s: float


@dataclass(slots=True)
class ProgramTimes:
    """Sums over the passes of one rank, in seconds."""

    compute_s: float = 0.0
    exchange_s: float = 0.0
    hidden_s: float = 0.0
    message_s: float = 0.0


@dataclass(slots=True)
class Outcome:
    """End and sums of every rank, and messages that nobody has received yet with their times of arrival."""

    end_s: dict[int, float] = field(default_factory=dict)
    totals: dict[int, ProgramTimes] = field(default_factory=dict)
    undelivered: dict[tuple[int, int, Hashable], float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MemoryCourse:
    """Bytes by name that the passes of a program hold when most is held, and at its end."""

    peak: Mapping[str, float]
    end: Mapping[str, float]


class StuckError(Exception):
    """Programs wait for messages that come from elsewhere, if at all, or several messages look alike."""


class ProgramMeeting:
    """The programs of a group, until all members have joined.

    Args:
        env: The environment.
        members: How many ranks run one.
    """

    def __init__(self, env: Environment, members: int) -> None:
        self.members = members
        self.events: dict[int, Event] = {}
        self._env = env
        self.programs: list[Program] = []
        self.ready_s: dict[int, float] = {}

    def join(self, op: Program, ready_s: float) -> Event:
        """A rank is ready to run its program; the event is for its end."""
        self.programs.append(op)
        self.ready_s[op.rank] = ready_s
        self.events[op.rank] = event = Event(self._env)
        return event

    @property
    def complete(self) -> bool:
        """Whether all members have joined."""
        return len(self.programs) == self.members


def memory_course(passes: Sequence[Pass]) -> MemoryCourse:
    """Follow what passes take and give back, one after another."""
    changes = {each: (_bytes(each.takes), _bytes(each.gives)) for each in set(passes)}
    held = peak = 0.0
    place = 0
    for index, each in enumerate(passes):
        taken, given = changes[each]
        held += taken
        if held > peak:
            peak, place = held, index
        held -= given
    return MemoryCourse(_held(passes[:place], passes[place].takes), _held(passes)) if peak else MemoryCourse({}, {})


def _bytes(changes: Iterable[Allocate | Release]) -> float:
    return sum(change.nbytes or 0.0 for change in changes)


def _held(passes: Sequence[Pass], more: Iterable[Allocate] = ()) -> dict[str, float]:
    """What is left of these passes, and `more`, by name."""
    held: dict[str, float] = {}
    for each, count in Counter(passes).items():
        for sign, changes in ((count, each.takes), (-count, each.gives)):
            for change in changes:
                held[change.name] = held.get(change.name, 0.0) + sign * (change.nbytes or 0.0)
    for taken in more:
        held[taken.name] = held.get(taken.name, 0.0) + taken.nbytes
    return {name: nbytes for name, nbytes in held.items() if nbytes}


class _Costs(NamedTuple):
    """What a walker has to know of a pass; boxes are None where there is no message."""

    seconds: float
    inbox: Box | None
    outbox: Box | None
    hop_s: float


def longest_paths(
    programs: Sequence[Program],
    ready_s: Mapping[int, float],
    pass_times: Callable[[Pass], PassTimes],
    hop_seconds: Callable[[Send], float],
) -> Outcome:
    """Follow every rank as far as its messages have arrived, until all are through.

    Args:
        programs: One for each rank.
        ready_s: When each rank begins.
        pass_times: Durations of a pass.
        hop_seconds: Duration of a message.

    Raises:
        StuckError: If ranks wait for messages that none of the programs sends, or two messages that are on their way
            at once have the same tag and micro-batch.
    """
    outcome = Outcome()
    boxes: dict[Channel, Box] = {}
    runnable: list[Walker] = []
    for op in programs:
        costs, outcome.totals[op.rank] = _costs(op, boxes, pass_times, hop_seconds)
        runnable.append(_follow(op, ready_s[op.rank], costs, runnable, outcome.end_s))
    while runnable:
        walker = runnable.pop()
        missing = next(walker, None)
        if missing is not None:
            inbox, micro_batch = missing
            inbox[micro_batch] = walker
    if len(outcome.end_s) < len(programs):
        raise StuckError
    for (src, dst, tag), box in boxes.items():
        outcome.undelivered.update({(src, dst, (tag, micro_batch)): time_s for micro_batch, time_s in box.items()})
    return outcome


def _costs(
    op: Program,
    boxes: dict[Channel, Box],
    pass_times: Callable[[Pass], PassTimes],
    hop_seconds: Callable[[Send], float],
) -> tuple[dict[Pass, _Costs], ProgramTimes]:
    """What each kind of pass costs, and all passes together."""
    costs, totals = {}, ProgramTimes()
    for each, count in Counter(op.passes).items():
        times, receive, send = pass_times(each), each.receive, each.send
        inbox = None if receive is None else boxes.setdefault((receive.src, op.rank, receive.tag), {})
        outbox = None if send is None else boxes.setdefault((op.rank, send.dst, send.tag), {})
        hop_s = 0.0 if send is None else hop_seconds(send)
        costs[each] = _Costs(times.compute_s + times.exchange_s, inbox, outbox, hop_s)
        totals.compute_s += count * times.compute_s
        totals.exchange_s += count * times.exchange_s
        totals.hidden_s += count * times.hidden_s
        totals.message_s += count * hop_s
    return costs, totals


def _follow(
    op: Program, now_s: float, costs: Mapping[Pass, _Costs], runnable: list[Walker], end_s: dict[int, float]
) -> Walker:
    """Go through the passes of a rank and wake those who wait for its messages; the loop that takes the time."""
    for each, micro_batch in zip(op.passes, op.micro_batches, strict=True):
        seconds, inbox, outbox, hop_s = costs[each]
        if inbox is not None:
            arrival_s = inbox.pop(micro_batch, None)
            if arrival_s is None:
                yield inbox, micro_batch
                arrival_s = inbox.pop(micro_batch)
            if arrival_s > now_s:
                now_s = arrival_s
        now_s += seconds
        if outbox is not None:
            arrival_s = now_s + hop_s
            found = outbox.setdefault(micro_batch, arrival_s)
            if found is not arrival_s:
                if isinstance(found, float):
                    raise StuckError
                outbox[micro_batch] = arrival_s
                runnable.append(found)
    end_s[op.rank] = now_s
