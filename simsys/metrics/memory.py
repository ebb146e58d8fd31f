"""Memory over time: a probe that records every change of memory in use on a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simsys.probes import Probe


class MemoryTimeline(Probe):
    """Records the memory in use on every simulated GPU at each change.

    At medium detail, passes without events hold their peak for their total duration.
    """

    def __init__(self) -> None:
        self._points: list[tuple[int, float, float]] = []

    def memory(self, rank: int, in_use_bytes: float, now_s: float) -> None:
        """Record a change."""
        self._points.append((rank, now_s, in_use_bytes))

    def columns(self) -> Mapping[str, Sequence[float]]:
        """Rank, time and bytes in use since then, by rank and time."""
        points = sorted(self._points, key=lambda point: point[:2])
        ranks, times, nbytes = zip(*points, strict=True) if points else ((), (), ())
        return {"rank": ranks, "time_s": times, "in_use_bytes": nbytes}
