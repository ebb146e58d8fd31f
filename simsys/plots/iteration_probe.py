"""Observes a training iteration for pictures: passes, communication, memory by component, and the work of kernels."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from simpy.events import Event

from simsys.executors.iterations.played import PlayedPrograms
from simsys.ops import Collective, Compute, HostWork, Operation, Pass, Program, Send
from simsys.probes import Probe
from simsys.sums import ordered_sum

MOST_POINTS = 1000
"""Points in time of a rank's memory; of more, groups of neighbours are represented by the greatest of them."""


class Span(NamedTuple):
    """What a rank did for some time.

    Args:
        rank: The rank.
        what: What it did.
        start_s: Its start.
        end_s: Its end.
        beside: True for communication.
        micro_batch: The micro-batch of a pass; None otherwise.
    """

    rank: int
    what: str
    start_s: float
    end_s: float
    beside: bool = False
    micro_batch: Hashable = None


def recording(passes: list[Span], ranks: Mapping[int, int]) -> type[PlayedPrograms]:
    """A component that carries out programs pass by pass, and adds each pass of some ranks to a list.

    Args:
        passes: The list.
        ranks: The ranks.
    """

    class RecordedPrograms(PlayedPrograms):
        def play(self, op: Program) -> Generator[Event, Any, None]:
            started = len(passes)
            yield from super().play(op)
            if op.rank in ranks:
                own = [place for place in range(started, len(passes)) if passes[place].rank == op.rank]
                for place, micro_batch in zip(own, op.micro_batches, strict=False):
                    passes[place] = passes[place]._replace(micro_batch=micro_batch)

        def carry_out(self, each: Pass) -> Generator[Event, Any, None]:
            computed = next((op for op in each.run if not isinstance(op, Collective)), None)
            if computed is None or computed.rank not in ranks:
                yield from super().carry_out(each)
                return
            start_s = self.core.now(computed.rank)
            yield from super().carry_out(each)
            passes.append(Span(computed.rank, computed.name, start_s, self.core.now(computed.rank)))

    return RecordedPrograms


class IterationProbe(Probe):
    """Records computation, communication and memory of some ranks.

    Args:
        stages: The pipeline stage of each observed rank.
    """

    def __init__(self, stages: Mapping[int, int]) -> None:
        self._stages = stages
        self._spans: list[Span] = []
        self._work: dict[tuple[int, str], list[tuple[float, float, float]]] = {}
        self._held: list[tuple[int, float, dict[str, int]]] = []

    def operation(self, op: Operation, started_s: float, ended_s: float) -> None:
        """A computation, collective or message."""
        if isinstance(op, Collective):
            for rank in op.group.ranks:
                if rank in self._stages:
                    self._spans.append(Span(rank, op.group.axis, started_s, ended_s, beside=True))
        elif op.rank in self._stages:
            if isinstance(op, Compute):
                self._spans.append(Span(op.rank, op.name, started_s, ended_s))
                amounts = op.work.flop, op.work.nbytes, ended_s - started_s
                self._work.setdefault((op.rank, op.name), []).append(amounts)
            elif isinstance(op, Send | HostWork):
                axis = "pipeline" if isinstance(op, Send) else "host"
                self._spans.append(Span(op.rank, axis, started_s, ended_s, beside=True))

    def memory_by_name(self, rank: int, held_bytes: Mapping[str, int], now_s: float) -> None:
        """The memory in use by component."""
        if rank in self._stages:
            self._held.append((rank, now_s, dict(held_bytes)))

    def activity(self, passes: Sequence[Span]) -> dict[str, list[Any]]:
        """Passes, other computation and communication as columns: by stage and time; neighbours of a kind are joined.

        Args:
            passes: The passes that were carried out as parts of programs, which replace their computations.
        """
        spans, gap_s = list(passes), _gap(self._spans)
        for rank in self._stages:
            ends = [each.end_s for each in passes if each.rank == rank]
            since_s = max(ends, default=-1.0)
            own = sorted((each for each in self._spans if each.rank == rank), key=attrgetter("start_s"))
            for beside in (False, True):
                rest = [each for each in own if each.beside == beside and (beside or each.start_s >= since_s)]
                spans += _joined(rest, gap_s)
        spans = sorted(spans, key=lambda each: (self._stages[each.rank], each.start_s, each.beside))
        return {
            "stage": [self._stages[each.rank] for each in spans],
            "rank": [each.rank for each in spans],
            "what": [each.what for each in spans],
            "micro_batch": [each.micro_batch for each in spans],
            "beside": [each.beside for each in spans],
            "start_s": [each.start_s for each in spans],
            "end_s": [each.end_s for each in spans],
        }

    def held_over_time(self) -> dict[str, list[Any]]:
        """Memory by component as columns, by rank and time."""
        names = list(dict.fromkeys(name for _, _, held in self._held for name in held))
        rows: list[tuple[int, float, dict[str, int]]] = []
        ordered = sorted(self._held, key=lambda row: row[:2])
        for _, own in groupby(ordered, key=lambda row: row[0]):
            rows += _fewer(list(own))
        return {
            "stage": [self._stages[rank] for rank, *_ in rows],
            "rank": [rank for rank, *_ in rows],
            "time_s": [time_s for _, time_s, _ in rows],
            **{name: [held.get(name, 0) for *_, held in rows] for name in names},
        }

    def passes(self) -> dict[str, list[Any]]:
        """The work of the kernels by rank and kind of pass, as columns."""
        rows = [
            (self._stages[rank], rank, name, *map(ordered_sum, zip(*amounts, strict=True)))
            for (rank, name), amounts in self._work.items()
        ]
        names = ("stage", "rank", "name", "flop", "nbytes", "seconds")
        return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def _joined(spans: Sequence[Span], gap_s: float) -> Iterator[Span]:
    """Spans of one lane with neighbours of a kind as one; of overlapping ones the later one keeps the rest."""
    current: Span | None = None
    for each in sorted(spans, key=attrgetter("start_s")):
        if current is not None and each.what == current.what and each.start_s <= current.end_s + gap_s * (1 + 1e-9):
            current = current._replace(end_s=max(current.end_s, each.end_s), micro_batch=None)
            continue
        if current is not None:
            yield current
        current = each
    if current is not None:
        yield current


def _gap(spans: Sequence[Span]) -> float:
    """A gap that is too short to be seen: a thousandth of the whole."""
    if not spans:
        return 0.0
    return 1e-3 * (max(each.end_s for each in spans) - min(each.start_s for each in spans))


def _fewer(rows: Sequence[tuple[int, float, dict[str, int]]]) -> list[tuple[int, float, dict[str, int]]]:
    """At most `MOST_POINTS` rows, each the one of its group that holds most; the last row at a time stays."""
    following = [*(time_s for _, time_s, _ in rows[1:]), float("inf")]
    last = [row for row, next_s in zip(rows, following, strict=True) if next_s > row[1]]
    size = -(-len(last) // MOST_POINTS)
    groups = [last[start : start + size] for start in range(0, len(last), size)]
    return [
        (group[0][0], group[0][1], max(group, key=lambda row: ordered_sum(row[2].values()))[2]) for group in groups
    ]
