"""When the passes of several ranks end, if nothing else disturbs them: a longest path through their messages."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from simpy.events import Event

from simsys.ops import Program, Send
from simsys.platform.environment import Environment

Message = tuple[int, int, Hashable]
"""Source, destination and tag."""


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
    undelivered: dict[Message, float] = field(default_factory=dict)


class StuckError(Exception):
    """Programs wait for messages that come from elsewhere, if at all."""


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


def longest_paths(
    programs: Sequence[Program],
    ready_s: Mapping[int, float],
    pass_times: Callable[[Any], PassTimes],
    hop_seconds: Callable[[Send], float],
) -> Outcome:
    """Follow every rank as far as its messages have arrived, until all are through.

    Args:
        programs: One for each rank.
        ready_s: When each rank begins.
        pass_times: Durations of the operations of a pass.
        hop_seconds: Duration of a message.

    Raises:
        StuckError: If ranks wait for messages that none of the programs sends.
    """
    outcome = Outcome()
    arrived, waiting = outcome.undelivered, {}
    walkers = {op.rank: _Walker(op, ready_s[op.rank]) for op in programs}
    runnable = list(walkers.values())
    while runnable:
        walker = runnable.pop()
        passes, index, now_s, rank, totals = walker.passes, walker.index, walker.now_s, walker.rank, walker.totals
        while index < len(passes):
            each = passes[index]
            if each.receive is not None:
                key = each.receive.src, rank, each.receive.tag
                arrival_s = arrived.pop(key, None)
                if arrival_s is None:
                    waiting[key] = walker
                    break
                if arrival_s > now_s:
                    now_s = arrival_s
            compute_s, exchange_s, hidden_s = pass_times(each.run)
            totals.compute_s += compute_s
            totals.exchange_s += exchange_s
            totals.hidden_s += hidden_s
            now_s += compute_s + exchange_s
            index += 1
            send = each.send
            if send is not None:
                hop_s = hop_seconds(send)
                totals.message_s += hop_s
                key = rank, send.dst, send.tag
                arrived[key] = now_s + hop_s
                if key in waiting:
                    runnable.append(waiting.pop(key))
        walker.index, walker.now_s = index, now_s
    if waiting:
        raise StuckError
    for walker in walkers.values():
        outcome.end_s[walker.rank], outcome.totals[walker.rank] = walker.now_s, walker.totals
    return outcome


class _Walker:
    """How far one rank has come."""

    __slots__ = ("index", "now_s", "passes", "rank", "totals")

    def __init__(self, op: Program, ready_s: float) -> None:
        self.rank, self.passes, self.now_s = op.rank, op.passes, ready_s
        self.index = 0
        self.totals = ProgramTimes()
