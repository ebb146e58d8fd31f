"""The trace of a training job: a process per simulated rank, with lanes for computation and each group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from simsys.ops import Compute, Operation, Recv
from simsys.probes import Probe
from simsys.traces import chrome
from simsys.traces.cycles import with_cycles
from simsys.traces.iterations import Iterations
from simsys.traces.kineto_names import ranks_text
from simsys.traces.lanes import in_lanes, nanoseconds
from simsys.traces.operations import Record, Shown, lanes_of, shown

if TYPE_CHECKING:
    import numpy as np

MOST_SLICES = 1_000_000
"""Reports of operations that a trace keeps; some 25 MB of memory, and a file that viewers still open."""
STEPS_LANE, HOST_LANE = 1, 2
"""Numbers of lanes; Perfetto takes 0 for the number of the process, which may be that of another lane."""
FURTHER = 1000
"""Difference of the numbers of a lane and of a further lane for slices that overlap."""


class TrainingTrace(Probe):
    """Records a training job.

    Args:
        most: The largest number of reports of operations that are kept.
    """

    counts_only = True
    each_pass = True
    indispensable = True

    def __init__(self, most: int = MOST_SLICES) -> None:
        self.stands_for: dict[int, Sequence[int]] = {}
        """By simulated rank, the ranks that it represents."""
        self.iterations = Iterations()
        self._record = Record(most)
        self._cycles: list[tuple[int, float, float]] = []
        self._memory: dict[int, list[tuple[float, float]]] = {}

    def represented(self, rank: int, ranks: Sequence[int]) -> None:
        """A rank of the trace."""
        self.stands_for[rank] = tuple(ranks)
        self._memory[rank] = []

    def operation(self, op: Operation, started_s: float, ended_s: float) -> None:
        """A slice, for collectives on each member."""
        self._record.add(op, started_s, ended_s)

    def waited(self, op: Recv, started_s: float, sent_s: float, ended_s: float) -> None:
        """A kernel that waits for a message, as NCCL's do."""
        self._record.add(op, started_s, ended_s)

    def memory(self, rank: int, in_use_bytes: float, now_s: float) -> None:
        """A point of the counter of memory."""
        if self._record.cut_s is None:
            self._memory[rank].append((now_s, in_use_bytes))

    def mark(self, rank: int, name: str, now_s: float) -> None:
        """Iterations, waiting for data, checkpoints."""
        self.iterations.mark(rank, name, now_s)

    def repeated(self, rank: int, count: int, started_s: float, iteration_s: float, like: int) -> None:
        """Iterations without operations."""
        self.iterations.repeat(rank, count, started_s, iteration_s, like)

    def cycles_left_out(self, rank: int, count: int, started_s: float, ended_s: float) -> None:
        """Micro-batches that are shown as copies; all ranks hear of the same ones."""
        if rank == min(self.stands_for):
            self._cycles.append((count, started_s, ended_s))

    def left_out(self) -> list[str]:
        """What the trace does not show, as sentences."""
        ranks = sum(len(each) for each in self.stands_for.values())
        texts = []
        if len(self.stands_for) < ranks:
            shown_ranks = f"{len(self.stands_for)} of {ranks} ranks are shown, each for others that do the same"
            texts.append(f"{shown_ranks} at the same time")
        texts += self.iterations.left_out()
        if any(isinstance(op, Compute) and not op.work.kernels for op in self._record.ops):
            texts.append(
                "single passes where they are very many, or where transfers contend for links: a computation is then "
                "the sum of several, and what comes beside or after it are sums, too; --lod high shows each"
            )
        copied = sum(count for count, _, _ in self._cycles)
        if copied and self._rows()[0].size > self._record.most - 1000:
            texts.append(f"equal micro-batches: more than {self._record.most:,} slices")
        if self._record.cut_s is not None:
            texts.append(f"operations after {self._record.cut_s:g} s: more than {self._record.most:,} slices")
        return texts

    def activities(self) -> dict[int, list[tuple[float, float, str]]]:
        """By rank, start and end in seconds and kind of what its GPU does; work of hosts is left out."""
        starts, ends, which = self._rows()
        places = self._places()
        found: dict[int, list[tuple[float, float, str]]] = {rank: [] for rank in sorted(self.stands_for)}
        for start_s, end_s, op in zip(starts.tolist(), ends.tolist(), which.tolist(), strict=True):
            for each in places[op]:
                if each.kind:
                    found[each.rank].append((start_s, end_s, each.kind))
        return found

    def events(self, first_pid: int = 0, job: str = "") -> Iterator[str]:
        """The events as text.

        Args:
            first_pid: Number of the process of rank 0.
            job: Name of the job, if there are several.
        """
        import numpy as np

        starts, ends, which = self._rows()
        places = self._places()
        flat = [each for part in places for each in part]
        tids = lanes_of(flat)
        numbers = {key: number for number, key in enumerate(sorted(tids))}
        counts = np.array([len(part) for part in places], dtype=np.int64)
        firsts = np.concatenate([[0], np.cumsum(counts)])[:-1] if places else counts
        row = np.repeat(np.arange(which.size), counts[which])
        within = np.arange(row.size) - np.repeat(np.cumsum(counts[which]) - counts[which], counts[which])
        place = firsts[which[row]] + within
        lane = np.array([numbers[each.rank, each.lane] for each in flat], dtype=np.int64)[place]
        start_ns, end_ns = nanoseconds(starts)[row], nanoseconds(ends)[row]
        order, further = in_lanes(lane, start_ns, end_ns)
        lanes = sorted(set(zip(lane[order].tolist(), further.tolist(), strict=True)))
        keys = sorted(tids)
        yield from self._names(first_pid, job, [(*keys[number], tids[keys[number]], more) for number, more in lanes])
        yield from self.iterations.events(first_pid, STEPS_LANE, HOST_LANE)
        yield from _slices(flat, tids, first_pid, place[order], start_ns[order], end_ns[order], further)
        yield from self._counters(first_pid, flat, place, start_ns, end_ns)

    def _rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Starts, ends and operations, with the micro-batches that were not simulated."""
        ends_s = self.iterations.ends_s(min(self.stands_for, default=0))
        return with_cycles(*self._record.arrays(), self._cycles, ends_s, self._record.most)

    def _places(self) -> list[list[Shown]]:
        return [list(shown(op, self.stands_for)) for op in self._record.ops]

    def _memory_over_time(self, points: Sequence[tuple[float, float]]) -> dict[int, float]:
        """Gigabytes in use since a time in nanoseconds, in order; of simultaneous values, the last."""
        import numpy as np

        times_s, nbytes = (np.array(column) for column in zip(*points, strict=True))
        ends_s = self.iterations.ends_s(min(self.stands_for, default=0))
        times_s, _, which = with_cycles(times_s, times_s, np.arange(times_s.size), self._cycles, ends_s)
        order = np.argsort(times_s, kind="stable")
        return dict(zip(nanoseconds(times_s[order]).tolist(), (nbytes[which[order]] / 1e9).tolist(), strict=True))

    def _names(self, first_pid: int, job: str, lanes: Sequence[tuple[int, str, int, int]]) -> Iterator[str]:
        for rank, ranks in sorted(self.stands_for.items()):
            more = f" (stands for {len(ranks)} ranks: {ranks_text(sorted(ranks))})" if len(ranks) > 1 else ""
            yield from chrome.named_process(first_pid + rank, f"{job + ': ' if job else ''}rank {rank}{more}", job)
            yield from chrome.named_lane(first_pid + rank, STEPS_LANE, "iterations", STEPS_LANE)
            if self.iterations.stops:
                yield from chrome.named_lane(first_pid + rank, HOST_LANE, "data and checkpoints", HOST_LANE)
        for rank, name, tid, more_lanes in lanes:
            number = tid + FURTHER * more_lanes
            label = f"{name}, {more_lanes + 1}" if more_lanes else name
            yield from chrome.named_lane(first_pid + rank, number, label, tid * FURTHER + more_lanes)

    def _counters(
        self, first_pid: int, flat: Sequence[Shown], place: np.ndarray, start_ns: np.ndarray, end_ns: np.ndarray
    ) -> Iterator[str]:
        import numpy as np

        for rank, points in sorted(self._memory.items()):
            if points:
                last = self._memory_over_time(points)
                yield from chrome.counter(first_pid + rank, "memory in use", "GB", [*last], last.values())
        bus_bytes = np.array([each.bus_bytes for each in flat])
        ranks = np.array([each.rank for each in flat], dtype=np.int64)
        moves = np.flatnonzero((bus_bytes[place] > 0.0) & (end_ns > start_ns)) if flat else place
        of_rank = ranks[place[moves]] if flat else place
        for rank in sorted(self.stands_for):
            mine = moves[of_rank == rank]
            if mine.size:
                times_ns, rate = chrome.rates(start_ns[mine], end_ns[mine], bus_bytes[place[mine]])
                yield from chrome.counter(first_pid + rank, "bus bandwidth", "GB/s", times_ns, rate)


def _slices(
    flat: Sequence[Shown],
    tids: dict[tuple[int, str], int],
    first_pid: int,
    place: np.ndarray,
    start_ns: np.ndarray,
    end_ns: np.ndarray,
    further: np.ndarray,
) -> Iterator[str]:
    """Slices in order of their lanes."""
    made: dict[tuple[int, int], tuple[str, str]] = {}
    columns = (place, further, start_ns, end_ns)
    for each, more, start, end in zip(*(column.tolist() for column in columns), strict=True):
        frame = made.get((each, more))
        if frame is None:
            one = flat[each]
            tid = tids[one.rank, one.lane] + FURTHER * more
            frame = made[each, more] = _frame(one, first_pid + one.rank, tid)
        dur = end - start
        yield (f'{frame[0]}{start // 1000}.{start % 1000:03d},"dur":{dur // 1000}.{dur % 1000:03d}{frame[1]}')


def _frame(one: Shown, pid: int, tid: int) -> tuple[str, str]:
    """The text of a slice before its start, and after its duration."""
    place: dict[str, Any] = {"device": pid, "stream": tid} if one.kind else {}
    head = f'{{"ph":"X","cat":"{one.category}","name":{chrome.text_of(one.name)},"pid":{pid},"tid":{tid},"ts":'
    return head, f',"args":{chrome.text_of({**place, **one.args})}}}'
