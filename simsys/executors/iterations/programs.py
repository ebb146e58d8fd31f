"""Ends of the passes of several ranks without interference: a longest path through their messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from simpy.events import Event

from simsys.executors.iterations.pass_times import PassTimes
from simsys.ops import Pass, Program, Send
from simsys.platform.environment import Environment
from simsys.sums import ordered_sum

Channel = tuple[int, int, Hashable]
"""Source, destination and tag of the messages of a pass, all micro-batches alike."""
Box = dict[Hashable, Any]
"""Contents of a channel, by micro-batch: arrival of a message (s), or the walker that waits for it."""
Walker = Generator[tuple[Box, Hashable], None, None]
"""Follows one rank; yields the channel it waits for."""


@dataclass(slots=True)
class Course:
    """Progress of one rank in its program; times in seconds.

    Args:
        end_s: Its current time, finally its end.
        times: Time of all passes by activity.
        passes: Number of runs of each pass.
        message_s: Total duration of its messages.
        waited_s: Time of waiting for messages.
        in_flight_s: The part of it with the message in flight.
        last_s: Arrival of its last message.
        through: True at the end of the program.
    """

    end_s: float
    times: PassTimes = field(default_factory=PassTimes)
    passes: dict[Pass, int] = field(default_factory=dict)
    message_s: float = 0.0
    waited_s: float = 0.0
    in_flight_s: float = 0.0
    last_s: float = 0.0
    through: bool = False


@dataclass(slots=True)
class Messages:
    """Messages of one channel; times in seconds.

    Args:
        seconds: Duration of each.
        departures_s: Departure times.
        late_s: Delay of each arrival after its receiver is ready; negative if early.
        held: True if their senders wait for them, too.
    """

    seconds: float
    departures_s: list[float] = field(default_factory=list)
    late_s: list[float] = field(default_factory=list)
    held: bool = False

    def add(self, other: Messages) -> None:
        """Merge the messages of another channel."""
        self.departures_s.extend(other.departures_s)
        self.late_s.extend(other.late_s)
        self.held = self.held or other.held

    def exposed_s(self) -> float:
        """Additional waiting of receivers if each message alone took twice as long.

        Messages that none of the programs receives count as waited for.
        """
        if self.held:
            return len(self.departures_s) * self.seconds
        unknown = len(self.departures_s) - len(self.late_s)
        return (
            ordered_sum(min(max(late_s + self.seconds, 0.0), self.seconds) for late_s in self.late_s)
            + unknown * self.seconds
        )


@dataclass(slots=True)
class Outcome:
    """Times of all programs.

    Args:
        courses: By rank.
        undelivered: When messages that no program receives were sent and arrive, by source, destination and tag.
        messages: By channel.
    """

    courses: dict[int, Course] = field(default_factory=dict)
    undelivered: dict[tuple[int, int, Hashable], tuple[float, float]] = field(default_factory=dict)
    messages: dict[Channel, Messages] = field(default_factory=dict)


class StuckError(Exception):
    """Programs wait for messages that none of them sends, or several messages cannot be distinguished."""


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


class _Costs(NamedTuple):
    """A pass for the walker; boxes are None without a message, hops are in seconds."""

    seconds: float
    inbox: Box | None
    inward_s: float
    late_s: list[float]
    outbox: Box | None
    outward_s: float
    departures_s: list[float]
    waits: bool


def longest_paths(
    programs: Sequence[Program],
    ready_s: Mapping[int, float],
    pass_times: Callable[[Pass], PassTimes],
    hop_seconds: Callable[[Send], float],
) -> Outcome:
    """Follow every rank until it waits for a message, until all have ended.

    Args:
        programs: One for each rank.
        ready_s: Start of each rank.
        pass_times: Durations of a pass.
        hop_seconds: Duration of a message.

    Raises:
        StuckError: If ranks wait for messages that none of the programs sends, or messages cannot be distinguished:
            two with the same tag and micro-batch are in flight at once, or messages of one tag differ in size.
    """
    outcome = Outcome()
    channels: dict[Channel, Box] = {}
    runnable: list[Walker] = []
    counts = [Counter(op.passes) for op in programs]
    hops_s = _hops(counts, hop_seconds)
    outcome.messages = {channel: Messages(hop_s) for channel, hop_s in hops_s.items()}
    for op, passes in zip(programs, counts, strict=True):
        course = outcome.courses[op.rank] = Course(ready_s[op.rank])
        costs = {each: _cost(op.rank, each, pass_times(each), channels, outcome.messages) for each in passes}
        for each, count in passes.items():
            course.times.add(pass_times(each), count)
            course.passes[each] = count
            course.message_s += count * costs[each].outward_s
        runnable.append(_follow(op, costs, course, runnable))
    while runnable:
        walker = runnable.pop()
        missing = next(walker, None)
        if missing is not None:
            inbox, micro_batch = missing
            inbox[micro_batch] = walker
    if not all(course.through for course in outcome.courses.values()):
        raise StuckError
    for channel, box in channels.items():
        for micro_batch, arrived_s in box.items():
            outcome.undelivered[*channel[:2], (channel[2], micro_batch)] = arrived_s - hops_s[channel], arrived_s
    return outcome


def _hops(counts: Iterable[Mapping[Pass, int]], hop_seconds: Callable[[Send], float]) -> dict[Channel, float]:
    """Duration of a message in each channel."""
    hops_s: dict[Channel, float] = {}
    for send in (each.send for passes in counts for each in passes):
        if send is not None:
            hop_s = hop_seconds(send)
            if hops_s.setdefault((send.rank, send.dst, send.tag), hop_s) != hop_s:
                raise StuckError
    return hops_s


def _cost(
    rank: int,
    each: Pass,
    times: PassTimes,
    channels: dict[Channel, Box],
    messages: Mapping[Channel, Messages],
) -> _Costs:
    receive, send = each.receive, each.send
    inward = None if receive is None else (receive.src, rank, receive.tag)
    outward = None if send is None else (rank, send.dst, send.tag)
    if outward is not None and each.waits:
        messages[outward].held = True
    return _Costs(
        times.seconds,
        None if inward is None else channels.setdefault(inward, {}),
        0.0 if inward is None or inward not in messages else messages[inward].seconds,
        [] if inward is None or inward not in messages else messages[inward].late_s,
        None if outward is None else channels.setdefault(outward, {}),
        0.0 if outward is None else messages[outward].seconds,
        [] if outward is None else messages[outward].departures_s,
        each.waits,
    )


def _follow(op: Program, costs: Mapping[Pass, _Costs], course: Course, runnable: list[Walker]) -> Walker:
    """Go through the passes of a rank and wake receivers of its messages; the hot loop."""
    now_s, waited_s, in_flight_s, last_s = course.end_s, 0.0, 0.0, 0.0
    for each, micro_batch in zip(op.passes, op.micro_batches, strict=True):
        seconds, inbox, inward_s, late_s, outbox, outward_s, departures_s, waits = costs[each]
        if inbox is not None:
            arrived_s = inbox.pop(micro_batch, None)
            if arrived_s is None:
                yield inbox, micro_batch
                arrived_s = inbox.pop(micro_batch)
            wait_s = arrived_s - now_s
            late_s.append(wait_s)
            if wait_s > 0.0:
                now_s = arrived_s
                waited_s += wait_s
                in_flight_s += wait_s if wait_s < inward_s else inward_s
        now_s += seconds
        if outbox is not None:
            departures_s.append(now_s)
            arrived_s = now_s + outward_s
            if arrived_s > last_s:
                last_s = arrived_s
            found = outbox.setdefault(micro_batch, arrived_s)
            if found is not arrived_s:
                if isinstance(found, float):
                    raise StuckError
                outbox[micro_batch] = arrived_s
                runnable.append(found)
            if waits:
                now_s = arrived_s
                waited_s += outward_s
                in_flight_s += outward_s
    course.end_s, course.waited_s, course.in_flight_s, course.last_s = now_s, waited_s, in_flight_s, last_s
    course.through = True
