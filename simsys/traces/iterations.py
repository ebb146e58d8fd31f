"""Iterations of the ranks of a trace: annotations of steps, and stops for data and checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from simsys.traces import chrome


@dataclass
class Iteration:
    """One iteration of a rank, or several equal ones.

    Args:
        started_s: Start.
        ended_s: End; of several, of the last one.
        count: How many.
        like: For iterations without operations, the number of the one that they equal; -1 for a simulated one.
    """

    started_s: float
    ended_s: float = -1.0
    count: int = 1
    like: int = -1


@dataclass
class Iterations:
    """Iterations by rank, in order.

    Args:
        of: By rank, its iterations.
        stops: By rank, what it stops for, with start and end in seconds.
    """

    of: dict[int, list[Iteration]] = field(default_factory=dict)
    stops: dict[int, list[tuple[str, float, float]]] = field(default_factory=dict)
    _stopped_s: dict[int, float] = field(default_factory=dict)

    def mark(self, rank: int, name: str, now_s: float) -> None:
        """A phase begins or ends."""
        if name == "iteration_start":
            self.of.setdefault(rank, []).append(Iteration(now_s))
        elif name == "iteration_end":
            self.of[rank][-1].ended_s = now_s
            stopped_s = self._stopped_s.pop(rank, now_s)
            self._stop(rank, "checkpoint", stopped_s, now_s)
        elif name == "data_loaded":
            self._stop(rank, "waits for data", self.of[rank][-1].started_s, now_s)
        elif name == "checkpoint":
            self._stopped_s[rank] = now_s

    def repeat(self, rank: int, count: int, started_s: float, iteration_s: float, like: int) -> None:
        """Iterations that were not simulated."""
        self.of.setdefault(rank, []).append(Iteration(started_s, started_s + count * iteration_s, count, like))

    def ends_s(self, rank: int) -> list[float]:
        """When the iterations of a rank end."""
        return [each.ended_s for each in self.of.get(rank, ())]

    def left_out(self) -> list[str]:
        """Which iterations have no operations, as sentences."""
        texts, first = [], 0
        for each in next(iter(self.of.values()), []):
            if each.like >= 0:
                last = first + each.count - 1
                which = f"iteration {first}: equal" if each.count == 1 else f"iterations {first} to {last}: each equal"
                texts.append(f"operations of {which} to iteration {each.like}")
            first += each.count
        return texts if len(texts) <= 3 else [*texts[:2], f"operations of {len(texts) - 2} further sets of iterations"]

    def events(self, first_pid: int, steps_lane: int, stops_lane: int) -> Iterator[str]:
        """Annotations as PyTorch's profiler writes them, one for each simulated iteration or set of equal ones."""
        for rank, iterations in sorted(self.of.items()):
            number, pid = 0, first_pid + rank
            for each in iterations:
                if each.like < 0:
                    yield _annotation(pid, steps_lane, f"ProfilerStep#{number}", each.started_s, each.ended_s)
                else:
                    last = number + each.count - 1
                    name = f"iterations {number} to {last}, each like {each.like}"
                    yield _annotation(pid, steps_lane, name, each.started_s, each.ended_s)
                number += each.count
        for rank, stops in sorted(self.stops.items()):
            for name, started_s, ended_s in stops:
                yield _annotation(first_pid + rank, stops_lane, name, started_s, ended_s)

    def _stop(self, rank: int, name: str, started_s: float, ended_s: float) -> None:
        if ended_s > started_s:
            self.stops.setdefault(rank, []).append((name, started_s, ended_s))


def _annotation(pid: int, tid: int, name: str, started_s: float, ended_s: float) -> str:
    start, end = round(started_s * 1e9), round(max(started_s, ended_s) * 1e9)
    about = f'"cat":"user_annotation","name":{chrome.text_of(name)},"pid":{pid},"tid":{tid}'
    return f'{{"ph":"X",{about},"ts":{chrome.micros(start)},"dur":{chrome.micros(end - start)},"args":{{}}}}'
