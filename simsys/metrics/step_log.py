"""The steps of serving replicas: one entry per multi-step run, as reported by the engine."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from simsys.serving.engine_log import move

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BLOCK = 1 << 17
"""Entries processed together, so that additional memory does not grow with the run."""

NUMBERS = ("started_s", "steps", "decode_tokens", "prompt_tokens", "first_step_s", "growth_s")
"""Fields of a multi-step run (`Probe.steps`)."""
TYPES = "diiidd"
"""Of these fields, as in `array`."""


class StepRuns:
    """Some entries of a log as arrays; durations within a run grow evenly, as an arithmetic progression.

    Args:
        rank: The first rank of the replica.
        start: Index of the first of these entries among all entries of the replica.
        columns: By field, views of the entries.
    """

    def __init__(self, rank: int, start: int, columns: Sequence[NDArray[Any]]) -> None:
        self.rank, self.start = rank, start
        self.places = {rank: slice(0, len(columns[0]))}
        """Where the entries of each replica are among these, by its first rank."""
        self._columns = columns

    def __len__(self) -> int:
        return len(self._columns[0])

    @cached_property
    def started_s(self) -> NDArray[np.float64]:
        """When the first step of each run began."""
        return self._columns[0].copy()

    @cached_property
    def count(self) -> NDArray[np.int64]:
        """Steps of the run."""
        return self._columns[1].astype("int64")

    @cached_property
    def decode_tokens(self) -> NDArray[np.int64]:
        """Decoding sequences: as many tokens in each of these steps, more only if drafts were accepted."""
        return self._columns[2].astype("int64")

    @cached_property
    def prompt_tokens(self) -> NDArray[np.int64]:
        """Prompt tokens that each of them has processed, or drafted ones."""
        return self._columns[3].astype("int64")

    @cached_property
    def first_s(self) -> NDArray[np.float64]:
        """Duration of its first step."""
        return self._columns[4].copy()

    @cached_property
    def growth_s(self) -> NDArray[np.float64]:
        """By how much each step was longer than the one before."""
        return self._columns[5].copy()

    @cached_property
    def last_s(self) -> NDArray[np.float64]:
        """Duration of its last step."""
        last_s: NDArray[np.float64] = self.first_s + self.growth_s * (self.count - 1)
        return last_s

    @cached_property
    def ended_s(self) -> NDArray[np.float64]:
        """When the last step of each run ended."""
        return self.ends_s(self.count)

    def ends_s(self, place: NDArray[np.int64], which: NDArray[np.int64] | slice = slice(None)) -> NDArray[np.float64]:
        """When steps ended, by their place in the run, counted from 1, and the run."""
        grown = 0.5 * place * (place - 1)
        ends_s: NDArray[np.float64] = (
            self.started_s[which] + place * self.first_s[which] + grown * self.growth_s[which]
        )
        return ends_s

    def columns(self) -> Mapping[str, list[float]]:
        """The entries as a table."""
        return {
            "rank": [self.rank] * len(self),
            "started_s": self.started_s.tolist(),
            "steps": self.count.tolist(),
            "first_step_s": self.first_s.tolist(),
            "last_step_s": self.last_s.tolist(),
            "decode_tokens": self.decode_tokens.tolist(),
            "prompt_tokens": self.prompt_tokens.tolist(),
        }


class JoinedRuns(StepRuns):
    """Entries of several replicas, or of one.

    Args:
        parts: The entries of each.
    """

    def __init__(self, parts: Sequence[StepRuns]) -> None:
        import numpy as np

        columns = [np.concatenate(column) for column in zip(*(part._columns for part in parts), strict=True)]
        super().__init__(parts[0].rank if len(parts) == 1 else -1, 0, columns)
        self.places = {part.rank: slice(end - len(part), end) for part, end in zip(parts, _ends(parts), strict=True)}

    def part(self, rank: int) -> StepRuns:
        """The entries of one of them."""
        place = self.places[rank]
        part = StepRuns(rank, 0, [column[place] for column in self._columns])
        for name in ("started_s", "count", "decode_tokens", "prompt_tokens", "first_s", "growth_s", "ended_s"):
            setattr(part, name, getattr(self, name)[place])
        return part


def _ends(parts: Sequence[StepRuns]) -> Iterator[int]:
    """Where the entries of each end among all."""
    return accumulate(map(len, parts))


class StepLog:
    """Runs of steps: 36 bytes each, however many steps and tokens they are."""

    def __init__(self) -> None:
        self._told: dict[int, list[array[Any]]] = {}
        self._joined: JoinedRuns | None = None  # all entries with what was computed of them, if they are few
        self._few: dict[int, StepRuns] = {}  # the same, by replica

    def add(self, rank: int, runs: Sequence[float]) -> None:
        """Record multi-step runs of the replica with this first rank, as in `Probe.steps`."""
        self._joined = None
        if rank not in self._told:
            self._told[rank] = _columns()
        move(runs, self._told[rank])

    def __len__(self) -> int:
        return sum(len(columns[0]) for columns in self._told.values())

    @property
    def ranks(self) -> list[int]:
        """The first ranks of the replicas that have made steps, in order."""
        return sorted(self._told)

    def blocks(self, rank: int | None = None, size: int = 0) -> Iterator[StepRuns]:
        """The entries in batches, of one replica or of all in sequence, in the order of reports."""
        if rank is None and not size and len(self) <= BLOCK:
            yield from map(self.of, self.ranks)
            return
        size = size or BLOCK
        for each in self.ranks if rank is None else (rank,):
            if len(self._told.get(each, _columns())[0]) <= size:
                yield self.of(each)
                continue
            columns = self._views(each)
            for start in range(0, len(columns[0]), size):
                yield StepRuns(each, start, [column[start : start + size] for column in columns])

    def together(self) -> Iterator[StepRuns]:
        """The entries of all replicas in batches: if they are few, one; else as `blocks`."""
        if (joined := self._all()) is None:
            yield from self.blocks()
        else:
            yield joined

    def of(self, rank: int) -> StepRuns:
        """All entries of a replica."""
        joined = self._all()
        if joined is None or rank not in joined.places:
            return StepRuns(rank, 0, self._views(rank))
        if rank not in self._few:
            self._few[rank] = joined.part(rank)
        return self._few[rank]

    def _all(self) -> JoinedRuns | None:
        """The entries of all replicas, if there are any, and few."""
        if self._joined is None and 0 < len(self) <= BLOCK:
            self._joined, self._few = JoinedRuns([StepRuns(each, 0, self._views(each)) for each in self.ranks]), {}
        return self._joined

    def between(self, since_s: float, until_s: float) -> StepLog:
        """The entries that started in a time."""
        part = StepLog()
        for rank in self.ranks:
            columns = self._views(rank)
            kept = (columns[0] >= since_s) & (columns[0] < until_s)
            part._told[rank] = [
                array(code, column[kept].tobytes()) for code, column in zip(TYPES, columns, strict=True)
            ]
        return part

    @property
    def ended_s(self) -> float:
        """When the last step ended; 0 if there was none."""
        return max((float(runs.ended_s.max()) for runs in self.together()), default=0.0)

    def columns(self) -> Mapping[str, Any]:
        """The entries as a table."""
        parts = [self.of(rank).columns() for rank in self.ranks]
        return {name: [value for part in parts for value in part[name]] for name in (parts[0] if parts else ())}

    def _views(self, rank: int) -> list[NDArray[Any]]:
        """Views, while which nothing can be noted."""
        import numpy as np

        return [np.frombuffer(column, dtype=column.typecode) for column in self._told.get(rank, _columns())]


def _columns() -> list[array[Any]]:
    return [array(typecode) for typecode in TYPES]
