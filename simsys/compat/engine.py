"""Events at times of one's own, on the clock of the platform."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from simsys.errors import UsageError
from simsys.metrics.history import EventType
from simsys.platform.environment import Environment

__all__ = ["Event", "EventType", "SimulationEngine"]


@dataclass(frozen=True)
class Event:
    """Something that happens at a time.

    Args:
        timestamp: Simulated seconds.
        event_type: What happens.
        node_id: Where.
        callback: Called with the event when it happens; it may schedule further ones.
        name: Name of the operation.
    """

    timestamp: float
    event_type: EventType
    node_id: int = 0
    callback: Callable[[Event], Any] | None = None
    name: str = ""


class SimulationEngine:
    """Lets events happen in the order of time; simultaneous ones in the order in which they were scheduled.

    Example:
        >>> from simsys.compat import Event, EventType, SimulationEngine
        >>> engine = SimulationEngine()
        >>> engine.schedule_event(Event(1.0, EventType.COMPUTE_START))
        >>> engine.run()["simulated_s"]
        1.0
    """

    def __init__(self) -> None:
        self.env = Environment()
        """The environment of SimPy, in which processes may run too."""
        self.event_history: list[Event] = []
        self._counts: Counter[str] = Counter()
        self._collects = False

    @property
    def current_time(self) -> float:
        """Simulated seconds."""
        return self.env.now

    def schedule_event(self, event: Event) -> None:
        """Let an event happen.

        Raises:
            UsageError: If its time is past, or no number.
        """
        if not self.env.now <= event.timestamp < math.inf:
            raise UsageError(f"an event happens at {self.env.now:g} s or later, not at {event.timestamp!r} s")
        self.env.at(event.timestamp, lambda _: self._happen(event))

    def run(self, until: float | None = None, collect_history: bool = False) -> dict[str, Any]:
        """Let all events happen, or those before a time.

        Args:
            until: Simulated seconds.
            collect_history: Whether to keep the events in `event_history`.

        Returns:
            Simulated seconds, the number of events so far, and their number by type.
        """
        self._collects = collect_history
        self.env.run(until=until)
        return {
            "simulated_s": self.env.now,
            "events": self._counts.total(),
            "events_by_type": {name: self._counts[name] for name in sorted(self._counts)},
        }

    def _happen(self, event: Event) -> None:
        self._counts[str(event.event_type)] += 1
        if self._collects:
            self.event_history.append(event)
        if event.callback is not None:
            event.callback(event)
