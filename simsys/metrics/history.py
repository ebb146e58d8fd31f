"""The event history of the first design: starts and ends of computation, communication and iterations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from simsys.collectives.base import CollectiveKind
from simsys.ops import Collective, Compute, Forward, HostWork, Operation, Send, Transfer
from simsys.probes import Probe


class EventType(StrEnum):
    """Name of the event."""

    COMPUTE_START = "COMPUTE_START"
    COMPUTE_END = "COMPUTE_END"
    COMM_START = "COMM_START"
    COMM_END = "COMM_END"
    ALLREDUCE_START = "ALLREDUCE_START"
    ALLREDUCE_END = "ALLREDUCE_END"
    ITERATION_START = "ITERATION_START"
    ITERATION_END = "ITERATION_END"


@dataclass(frozen=True, slots=True, order=True)
class HistoryEvent:
    """One entry of the history.

    Args:
        timestamp: Simulated seconds.
        node_id: The rank (for a collective, the first to join).
        event_type: What happened.
        name: Name of the operation.
        job: Name of the job, if several share a cluster; else empty.
    """

    timestamp: float
    node_id: int
    event_type: EventType
    name: str
    job: str = ""


class EventHistory(Probe):
    """Collects all events of a run.

    Args:
        job: Name of the job, if several share a cluster.
    """

    def __init__(self, job: str = "") -> None:
        self._job = job
        self._events: list[HistoryEvent] = []

    @property
    def event_history(self) -> list[HistoryEvent]:
        """All events in order of time."""
        return sorted(self._events, key=lambda event: event.timestamp)

    def operation(self, op: Operation, started_s: float, ended_s: float) -> None:
        """Both ends of an operation."""
        start, end = _types(op)
        self._events.append(HistoryEvent(started_s, op.rank, start, op.name, self._job))
        self._events.append(HistoryEvent(ended_s, op.rank, end, op.name, self._job))

    def mark(self, rank: int, name: str, now_s: float) -> None:
        """Iterations; other phases are not part of the history."""
        if name in ("iteration_start", "iteration_end"):
            self._events.append(HistoryEvent(now_s, rank, EventType(name.upper()), name, self._job))


def _types(op: Operation) -> tuple[EventType, EventType]:
    if isinstance(op, Compute | Forward):
        return EventType.COMPUTE_START, EventType.COMPUTE_END
    if isinstance(op, Collective) and op.kind is CollectiveKind.ALL_REDUCE:
        return EventType.ALLREDUCE_START, EventType.ALLREDUCE_END
    assert isinstance(op, Collective | Send | HostWork | Transfer)
    return EventType.COMM_START, EventType.COMM_END
