"""The iterations of one rank, and what their time is spent on."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from simsys.metrics.split import Piece, TimeSplit
from simsys.parallel.layout import GROUPS
from simsys.sums import ordered_sum

MESSAGES = "pipeline"
"""The axis that messages between ranks count for."""
HOST = "host"
"""What copies from and to the host, and updates there, count for."""
COMMUNICATION = (*GROUPS, HOST)
"""All axes of exposed communication, in the order of reports."""
_COMPUTE, _BUBBLE, _COMMUNICATION = "compute", "bubble", "communication"


@dataclass
class IterationLog:
    """Start, end and parts of every iteration of one rank, in seconds.

    Every moment of an iteration counts once, for the first of these that applies:

    - data and checkpoint: at its ends, all ranks wait for batches or stop;
    - computation;
    - exposed communication of an axis: a collective of one of the rank's groups runs, or its host works (`HOST`), of
      concurrent ones the first; or an awaited message is in flight (`MESSAGES`);
    - bubble: it waits for a message that has not been sent yet;
    - exposed communication: a message that it has sent is in flight;
    - bubble, if there are other stages: it waits for them to join a collective along the pipeline, or to end;
    - idle: any other wait.

    Args:
        started_s: Start of each iteration.
        ended_s: End of each iteration.
        compute: Computation of the rank, including the optimizer.
        optimizer: The optimizer's part of it.
        communication: Time of collectives of the rank's groups and of its messages.
        exposed: Exposed communication by axis.
        bubble: Time of waiting for other stages.
        data: Time of waiting for batches.
        checkpoint: Time of stopping for a checkpoint.
        pipelined: True if there are other stages.
    """

    started_s: list[float] = field(default_factory=list)
    ended_s: list[float] = field(default_factory=list)
    compute: list[float] = field(default_factory=list)
    optimizer: list[float] = field(default_factory=list)
    communication: list[float] = field(default_factory=list)
    exposed: list[Mapping[str, float]] = field(default_factory=list)
    bubble: list[float] = field(default_factory=list)
    data: list[float] = field(default_factory=list)
    checkpoint: list[float] = field(default_factory=list)
    pipelined: bool = False
    _computations: list[Piece] = field(default_factory=list)
    _exchanges: list[Piece] = field(default_factory=list)
    _waits: list[Piece] = field(default_factory=list)
    _sends: list[Piece] = field(default_factory=list)
    _optimizer_s: float = 0.0
    _loaded_s: float = 0.0
    _stopped_s: float | None = None
    _left_out: list[tuple[int, float, float]] = field(default_factory=list)

    def computation(self, name: str, started_s: float, ended_s: float) -> None:
        """Record a computation of the rank."""
        self._computations.append((started_s, ended_s, _COMPUTE))
        if name == "optimizer":
            self._optimizer_s += ended_s - started_s

    def exchange(self, axis: str, started_s: float, ended_s: float) -> None:
        """A collective of one of the rank's groups."""
        self._exchanges.append((started_s, ended_s, axis))

    def message(self, started_s: float, ended_s: float) -> None:
        """A message that the rank sends."""
        self._sends.append((started_s, ended_s, MESSAGES))

    def waited(self, started_s: float, sent_s: float, ended_s: float) -> None:
        """The rank waits for a message, until `sent_s` for its being sent."""
        sent_s = max(started_s, sent_s)
        if sent_s > started_s:
            self._waits.append((started_s, sent_s, _BUBBLE))
        self._waits.append((sent_s, ended_s, MESSAGES))

    def mark(self, name: str, now_s: float) -> None:
        """Begin an iteration, or end it and record its parts."""
        if name == "iteration_start":
            self.started_s.append(now_s)
            self._loaded_s, self._stopped_s = now_s, None
        elif name == "data_loaded":
            self._loaded_s = now_s
            return
        elif name == "checkpoint":
            self._stopped_s = now_s
            return
        elif name == "iteration_end":
            self._book(now_s)
        else:
            return
        self._computations, self._exchanges, self._waits, self._sends = [], [], [], []
        self._left_out, self._optimizer_s = [], 0.0

    def _book(self, ended_s: float) -> None:
        worked_s = ended_s if self._stopped_s is None else self._stopped_s
        self.ended_s.append(ended_s)
        self.data.append(self._loaded_s - self.started_s[-1])
        self.checkpoint.append(ended_s - worked_s)
        self.optimizer.append(self._optimizer_s)
        left_out_s = ordered_sum(count * (end_s - start_s) for count, start_s, end_s in self._left_out)
        joined_s = {start_s for start_s, _, axis in self._exchanges if axis == MESSAGES}
        parts = self._parts(self._loaded_s, worked_s - left_out_s, joined_s | {worked_s - left_out_s})
        for count, start_s, end_s in self._left_out:
            for purpose, seconds in self._parts(start_s, end_s, joined_s).items():
                parts[purpose] = parts.get(purpose, 0.0) + count * seconds
        self.compute.append(parts.pop(_COMPUTE))
        self.communication.append(parts.pop(_COMMUNICATION))
        self.bubble.append(_rest(ended_s - self.started_s[-1], parts.pop(_BUBBLE)))
        self.exposed.append(parts)

    def _parts(self, start_s: float, end_s: float, joined_s: Container[float]) -> dict[str, float]:
        """What a span of time is spent on: computation, communication, bubble, and exposed communication by axis.

        Args:
            start_s: Its start.
            end_s: Its end.
            joined_s: When the rank waits for other stages no longer.
        """
        split, parts = TimeSplit(start_s, end_s), dict[str, float]()
        kinds = self._computations, self._exchanges, self._waits, self._sends
        computations, exchanges, waits, sends = (_within(pieces, start_s, end_s) for pieces in kinds)
        split.take(computations)
        for pieces in (exchanges, waits, sends):
            for purpose, seconds in split.take(pieces).items():
                parts[purpose] = parts.get(purpose, 0.0) + seconds
        bubble_s = parts.get(_BUBBLE, 0.0) + (split.before(joined_s) if self.pipelined else 0.0)
        communication_s = _total(exchanges, start_s, end_s) + _total(sends, start_s, end_s)
        compute_s = _total(computations, start_s, end_s)
        return {**parts, _COMPUTE: compute_s, _COMMUNICATION: communication_s, _BUBBLE: bubble_s}

    def leave_out(self, count: int, started_s: float, ended_s: float) -> None:
        """Count what happens from `started_s` to `ended_s` another `count` times, without a record of it."""
        self._left_out.append((count, started_s, ended_s))

    def repeat(self, count: int, started_s: float, iteration_s: float, like: int) -> None:
        """Book `count` iterations that are like the one with the number `like`."""
        self.started_s += [started_s + index * iteration_s for index in range(count)]
        self.ended_s += [started_s + (index + 1) * iteration_s for index in range(count)]
        columns = self.compute, self.optimizer, self.communication, self.bubble, self.data, self.checkpoint
        for column in columns:
            column += [column[like]] * count
        self.exposed += [self.exposed[like]] * count

    @property
    def axes(self) -> set[str]:
        """The axes along which the rank communicated."""
        return {axis for parts in self.exposed for axis in parts}

    def exposed_along(self, axis: str) -> float:
        """Exposed communication along an axis, the mean over all iterations."""
        return ordered_sum(parts.get(axis, 0.0) for parts in self.exposed) / len(self.exposed)

    def rows(self) -> Mapping[str, Sequence[Any]]:
        """One row per iteration.

        It is the sum of computation, exposed communication, bubble, data, checkpoint and idle time.
        """
        durations = [end - start for start, end in zip(self.started_s, self.ended_s, strict=True)]
        exposed = [ordered_sum(parts.values()) for parts in self.exposed]
        parts = zip(self.compute, exposed, self.bubble, self.data, self.checkpoint, strict=True)
        return {
            "iteration": list(range(len(durations))),
            "started_s": self.started_s,
            "iteration_s": durations,
            "compute_s": self.compute,
            "optimizer_s": self.optimizer,
            "communication_s": self.communication,
            "exposed_communication_s": exposed,
            "bubble_s": self.bubble,
            "data_s": self.data,
            "checkpoint_s": self.checkpoint,
            "idle_s": [_rest(total, total - ordered_sum(each)) for total, each in zip(durations, parts, strict=True)],
        }


def _rest(whole_s: float, part_s: float) -> float:
    """A part of the whole; 0 if it is no more than rounding."""
    return part_s if part_s > 1e-12 * whole_s else 0.0


def _within(pieces: Iterable[Piece], since_s: float, until_s: float) -> list[Piece]:
    """The pieces that lie within a span, wholly or in part."""
    return [each for each in pieces if each[1] > since_s and each[0] < until_s]


def _total(pieces: Iterable[Piece], since_s: float, until_s: float) -> float:
    """Total duration within a span of the pieces that lie in it."""
    return ordered_sum(min(end_s, until_s) - max(start_s, since_s) for start_s, end_s, _ in pieces)
