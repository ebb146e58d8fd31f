"""Requests of a trace: asynchronous slices with their phases, and how many wait and run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from simsys.traces import chrome

ARRIVED, ADMITTED, FIRST_TOKEN, RESUMED, PREEMPTED, FINISHED, REJECTED, CANCELLED = range(8)
"""What happens to a request."""
QUEUE, PREFILL, DECODE = "queue", "prefill", "decode"
_NEXT = {
    ARRIVED: QUEUE,
    ADMITTED: PREFILL,
    FIRST_TOKEN: DECODE,
    RESUMED: DECODE,
    PREEMPTED: QUEUE,
    FINISHED: "",
    REJECTED: "",
    CANCELLED: "",
}
"""The phase of a request after each event."""


class Phase(NamedTuple):
    """A phase of a request.

    Args:
        name: ``queue``, ``prefill`` or ``decode``; a request that lost its cache has them again.
        started_s: Start.
        ended_s: End.
    """

    name: str
    started_s: float
    ended_s: float


class RequestLog:
    """What has happened to all requests."""

    def __init__(self) -> None:
        self.events: list[tuple[int, int, float]] = []
        """Request, what happened, and when in seconds."""
        self.reasons: dict[int, str] = {}
        """Why requests were rejected."""
        self.given_up: dict[int, str] = {}
        """Why clients gave up requests."""

    def phases(self, end_s: float) -> dict[int, tuple[list[Phase], bool]]:
        """By request, its phases, and whether it ended before the end of the run."""
        open_phase: dict[int, tuple[str, float]] = {}
        found: dict[int, tuple[list[Phase], bool]] = {}
        for request, event, now_s in sorted(self.events, key=itemgetter(2)):
            before = open_phase.pop(request, None)
            phases, _ = found.setdefault(request, ([], False))
            if before is not None:
                phases.append(Phase(before[0], before[1], now_s))
            if _NEXT[event]:
                open_phase[request] = _NEXT[event], now_s
            else:
                found[request] = phases, True
        for request, (name, started_s) in open_phase.items():
            found[request][0].append(Phase(name, started_s, max(started_s, end_s)))
        return found

    def slices(self, pid: int, end_s: float, tokens: Sequence[Sequence[int]]) -> Iterator[str]:
        """One asynchronous slice per request and one per phase.

        Args:
            pid: The process of the requests.
            end_s: End of the run.
            tokens: Prompt tokens of all requests, and output tokens; empty if unknown.
        """
        found = sorted(self.phases(end_s).items())
        digits = len(str(found[-1][0])) if found else 1  # viewers sort by name
        for request, (phases, ended) in found:
            args: dict[str, object] = {}
            if tokens:
                args |= {"prompt tokens": tokens[0][request], "output tokens": tokens[1][request]}
            if request in self.reasons:
                args["rejected"] = self.reasons[request]
            elif request in self.given_up:
                args["cancelled"] = self.given_up[request]
            elif not ended:
                args["unfinished"] = True
            times_ns = [(round(each.started_s * 1e9), round(each.ended_s * 1e9)) for each in phases]
            if not phases:
                now_ns = round(next(now_s for each, _, now_s in self.events if each == request) * 1e9)
                times_ns = [(now_ns, now_ns)]
            name = f"request {request:0{digits}}"
            yield chrome.request_begins(pid, request, name, times_ns[0][0], args)
            for each, (start_ns, end_ns) in zip(phases, times_ns, strict=False):
                yield chrome.request_begins(pid, request, each.name, start_ns)
                yield chrome.request_ends(pid, request, each.name, end_ns)
            yield chrome.request_ends(pid, request, name, times_ns[-1][1])

    def counters(self, pid: int, end_s: float) -> Iterator[str]:
        """How many requests are queued and how many run, over time."""
        queued: dict[int, int] = {}
        running: dict[int, int] = {}
        for phases, _ in self.phases(end_s).values():
            for each in phases:
                level = queued if each.name == QUEUE else running
                for time_s, change in ((each.started_s, 1), (each.ended_s, -1)):
                    now_ns = round(time_s * 1e9)
                    level[now_ns] = level.get(now_ns, 0) + change
        for name, changes in (("waiting", queued), ("running", running)):
            count, times_ns, counts = 0, sorted(changes), []
            for now_ns in times_ns:
                count += changes[now_ns]
                counts.append(count)
            yield from chrome.counter(pid, "requests", name, times_ns, counts)
