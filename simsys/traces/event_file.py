"""The event history of a run as a file: JSON lines, compressed, that read back as the same events."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from simsys.config.experiment import SimulationConfig
from simsys.errors import TraceError
from simsys.metrics.history import EventHistory, EventType, HistoryEvent
from simsys.metrics.result import RunResult
from simsys.probes import Probe
from simsys.traces.packed import unpacked
from simsys.traces.per_job import PerJob
from simsys.version import __version__

FORMAT = "simsys events"
VERSION = 1
_KEYS = {"time_s", "rank", "type", "name"}


class EventRecord:
    """Records the event history of a scenario, with one history for each job of a shared cluster.

    Args:
        config: The scenario.
    """

    name = "events.jsonl.gz"
    """How the name of the file ends."""

    def __init__(self, config: SimulationConfig) -> None:
        self._histories = PerJob(config, lambda _, job: EventHistory(job))

    @property
    def probe(self) -> Probe:
        """The observer of the run."""
        return self._histories.probe

    def events(self) -> list[HistoryEvent]:
        """All events in order of time."""
        found = [event for each in self._histories.parts.values() for event in each.event_history]
        return sorted(found, key=lambda event: event.timestamp)

    def left_out(self) -> list[str]:
        """Nothing: what is recorded is written."""
        return []

    def write(self, result: RunResult, file: TextIO) -> int:
        """Write a line about the run and one for each event; return the number of events."""
        about = {"format": FORMAT, "version": VERSION, "simsys_version": __version__, "scenario": result.name}
        file.write(json.dumps({**about, "level_of_detail": result.lod}) + "\n")
        events = self.events()
        file.writelines(_line(event) for event in events)
        return len(events)


def read_events(path: str | Path) -> list[HistoryEvent]:
    """Read the events that ``simsys run --events`` has written.

    Args:
        path: The file, compressed or not.

    Returns:
        The events in the order of the file, which is that of time.

    Raises:
        TraceError: If it cannot be read, is of another format, or is cut off; with the line.
    """
    path = Path(path)
    with unpacked(path) as file:
        return list(_events(path, ((number, line.decode("utf-8")) for number, line in enumerate(file, start=1))))


def _line(event: HistoryEvent) -> str:
    job = {"job": event.job} if event.job else {}
    data = {"time_s": event.timestamp, "rank": event.node_id, "type": event.event_type, "name": event.name, **job}
    return json.dumps(data) + "\n"


def _events(path: Path, lines: Iterator[tuple[int, str]]) -> Iterator[HistoryEvent]:
    _, first = next(lines, (1, ""))
    about = _parsed(first)
    if about is None or about.get("format") != FORMAT:
        raise TraceError(f"{path}:1: not an event history of 'simsys run --events', whose first line has its format")
    if about.get("version") != VERSION:
        raise TraceError(f"{path}:1: version {about.get('version')!r} of the format; this simsys reads {VERSION}")
    for number, line in lines:
        data = _parsed(line) if line.endswith("\n") else None
        try:
            assert data is not None
            time_s, kind = float(data["time_s"]), EventType(data["type"])
            if not math.isfinite(time_s):
                raise ValueError
            yield HistoryEvent(time_s, int(data["rank"]), kind, str(data["name"]), str(data.get("job", "")))
        except (AssertionError, KeyError, TypeError, ValueError):
            keys = ", ".join(sorted(_KEYS))
            raise TraceError(f"{path}:{number}: not an event, or cut off; an event has {keys}") from None


def _parsed(line: str) -> dict[str, Any] | None:
    """The mapping of a line; None if it is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
