"""Runs a sweep: what is missing in its store, on workers, with one writer."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from simsys.errors import InfeasibleError, UsageError
from simsys.sweeps.cluster import DaskWorkers, check_address
from simsys.sweeps.evaluate import OK, TRANSIENT, UNFIT, Row
from simsys.sweeps.local import LocalWorkers
from simsys.sweeps.plan import SweepPlan
from simsys.sweeps.points import Point, changes, points_of
from simsys.sweeps.shards import sample_of, shard_size, shards
from simsys.sweeps.store import Store
from simsys.sweeps.worker import Setting, Task
from simsys.user_modules import current

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of points that have rows, and the number of all points."""


class Workers(Protocol):
    """Something that simulates shards."""

    def mean_estimate_s(self, sample: Sequence[Task]) -> float | None:
        """Mean estimated processor time of points (s); None if unknown."""

    def rows(self, shards: Sequence[Sequence[Task]]) -> Iterator[list[Row]]:
        """Rows as they arrive, each point's once."""


StartWorkers: TypeAlias = Callable[[Setting], AbstractContextManager[Workers]]
"""Starts workers for the points of a sweep."""


@dataclass(frozen=True)
class Summary:
    """The points of a sweep by state.

    Args:
        folder: The folder of the store.
        total: The number of points.
        states: Numbers of points by state; points without a row are in none.
        simulated: Points that this call has run.
    """

    folder: Path
    total: int
    states: Mapping[str, int]
    simulated: int = 0

    @property
    def missing(self) -> int:
        """Points without a row."""
        return self.total - sum(self.states.values())

    @property
    def exit_code(self) -> int:
        """0 if any point has metrics; otherwise 3 if a point does not fit, and 2 if all are refused."""
        if self.states.get(OK) or self.missing:
            return 0
        return InfeasibleError.exit_code if self.states.get(UNFIT) else UsageError.exit_code

    def text(self) -> str:
        """One line for people."""
        parts = [f"{count:,} {state}" for state, count in self.states.items()]
        parts += [f"{self.missing:,} to run"] if self.missing else []
        return f"{self.total:,} points: {', '.join(parts)}"


def local(jobs: int | None = None, timeout_s: float = math.inf) -> StartWorkers:
    """Worker processes of this machine.

    Args:
        jobs: Their number; as many as there are processors by default.
        timeout_s: Longest time of a point.
    """
    number = jobs or os.cpu_count() or 1
    return lambda setting: LocalWorkers(setting, number, timeout_s)


def on_cluster(address: str, timeout_s: float = math.inf) -> StartWorkers:
    """Workers of a Dask cluster; arguments and errors as `DaskWorkers`."""
    check_address(address)
    return lambda setting: DaskWorkers(setting, address, timeout_s)


def run_sweep(
    plan: SweepPlan,
    folder: Path,
    start: StartWorkers,
    *,
    retry: bool = False,
    part: tuple[int, int] = (1, 1),
    progress: Progress = lambda done, total: None,
) -> Summary:
    """Run the points of a sweep that have no row yet.

    Args:
        plan: The sweep.
        folder: The folder of its store, which is created if missing.
        start: Starts the workers.
        retry: Whether points that crashed or timed out are run again.
        part: Which of how many parts of the points runs, from 1; the stores of all parts can be merged.
        progress: Called after each batch of rows.

    Raises:
        ConfigError: If a condition of the sweep cannot be evaluated, or no point is left.
        UsageError: If the store is of another version or experiment, or another process writes to it.
        OutputError: If the store cannot be written.
        KeyboardInterrupt: If the sweep is interrupted; the rows that were written stay.
    """
    points = points_of(plan)
    with Store(folder, write=True) as store:
        store.begin(plan.name, description(plan), plan.paths, points)
        chosen = points[part[0] - 1 :: part[1]]
        missing = _missing(chosen, store.states(), retry=retry)
        done = len(chosen) - len(missing)
        progress(done, len(chosen))
        if missing:
            tasks = [Task(each.position, each.key, changes(plan, each)) for each in missing]
            setting = Setting(plan.source.data, plan.folder, current())
            sample = [Task(each.position, each.key, changes(plan, each)) for each in sample_of(points)]
            with start(setting) as workers:
                size = shard_size(workers.mean_estimate_s(sample))
                for rows in workers.rows(shards(tasks, size)):
                    store.add(rows)
                    done += len(rows)
                    progress(done, len(chosen))
        return summary_of(store, simulated=len(missing))


def merge(folder: Path, others: Sequence[Path]) -> Summary:
    """Add the rows of other stores of the same sweep to a store; to do so twice changes nothing.

    Args:
        folder: The folder of the store, which is created if missing.
        others: The folders of the other stores, which are only read.

    Raises:
        UsageError: If a store is missing, or of another sweep or version than the others.
        OutputError: If the store cannot be written.
    """
    with ExitStack() as stack:
        sources = [stack.enter_context(Store(other)) for other in others]  # all, before a store is made
        store = stack.enter_context(Store(folder, write=True))
        for source in sources:
            store.add_from(source)
        if not store.meta():
            raise UsageError(f"{folder}: there is nothing to merge")
        return summary_of(store)


def description(plan: SweepPlan) -> Mapping[str, object]:
    """What distinguishes a sweep from others: its scenario and its section."""
    return {"scenario": plan.source.data, "sweep": plan.config.model_dump(mode="json", exclude_unset=True)}


def summary_of(store: Store, simulated: int = 0) -> Summary:
    """Count the points of a store by state."""
    found = Counter(row.state if row is not None else "" for _, row in store.points())
    total = found.total()
    del found[""]
    return Summary(store.folder, total, dict(sorted(found.items())), simulated)


def _missing(points: Sequence[Point], states: Mapping[str, str], *, retry: bool) -> list[Point]:
    """Points without a row, the first for each key."""
    again = ("", *TRANSIENT) if retry else ("",)
    missing = {each.key: each for each in reversed(points) if states.get(each.key, "") in again}
    return sorted(missing.values(), key=lambda each: each.position)
