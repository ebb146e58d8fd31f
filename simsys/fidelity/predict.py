"""Predictions of cases: each run is simulated once, on one or several cores, with changed profiles if wanted."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

from simsys.config.hardware import NONE_LEFT_OUT, FitsLeftOut, Named, overlaid, profiles_read, without_fits
from simsys.errors import SimsysError
from simsys.fidelity.case import Case, Figures, Outcome, Prediction, Run, Unsupported
from simsys.fidelity.memo import Memo
from simsys.user_modules import UserModules, current, looked_for
from simsys.workers import begin_work, end_workers, starting_workers

Overlay: TypeAlias = Mapping[Named, Mapping[str, Any]]
"""Settings that replace settings of profiles, by profile."""
Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of finished runs and the number of all runs."""

Task = TypeVar("Task")
Answer = TypeVar("Answer")

RUNS_OF_A_PARCEL = 8  # sent to another process at once


@dataclass(frozen=True)
class Surroundings:
    """What all simulations have in common, in every process.

    Args:
        left_out: Fits without which profiles are used.
        modules: The user's modules.
        memo: Where outcomes are kept, if they are.
    """

    left_out: FitsLeftOut
    modules: UserModules
    memo: Memo | None = None


class Simulations:
    """Simulates runs and caches their outcomes; a context manager that owns the processes.

    Args:
        jobs: Number of processes.
        progress: Called after each run.
        left_out: Fits without which profiles are used.
        memo: Where outcomes are kept on disk, if they are.
    """

    def __init__(
        self,
        jobs: int = 1,
        progress: Progress | None = None,
        left_out: FitsLeftOut = NONE_LEFT_OUT,
        memo: Memo | None = None,
    ) -> None:
        self._jobs, self._progress = jobs, progress
        self._left_out, self._memo = left_out, memo
        self._pool: ProcessPoolExecutor | None = None
        self._profiles: dict[Run, frozenset[Named]] = {}
        self._found: dict[tuple[Run, str], Outcome] = {}
        self._built: dict[Run, tuple[float, frozenset[Named]]] = {}  # expected time, and the profiles read until then

    def __enter__(self) -> Self:
        if self._jobs > 1:
            self._pool = ProcessPoolExecutor(self._jobs, mp_context=get_context("spawn"), initializer=begin_work)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._pool is not None and error is not None:
            end_workers(self._pool)
        elif self._pool is not None:
            self._pool.shutdown()

    def predict(self, cases: Sequence[Case], overlay: Overlay | None = None) -> list[Prediction]:
        """Predict every case, in the order of the cases.

        Args:
            cases: The cases.
            overlay: Settings that replace settings of profiles.
        """
        overlay = overlay or {}
        runs = list(dict.fromkeys(case.run for case in cases if case.run is not None))
        new = [run for run in runs if self._key(run, overlay) not in self._found]
        for done, (run, outcome) in enumerate(self._simulate(new, overlay), 1):
            self._profiles[run] = outcome.profiles
            self._found[self._key(run, overlay)] = outcome
            if self._progress is not None:
                self._progress(done, len(new))
        return [self._prediction(case, overlay) for case in cases]

    def profiles(self, run: Run) -> frozenset[Named]:
        """Return the profiles that a run has read; none if it was not simulated."""
        return self._profiles.get(run, frozenset())

    def expected_cpu_s(self, cases: Sequence[Case]) -> dict[Run, float]:
        """Return the approximate processor time of each run of some cases; it does not depend on the machine."""
        built = self._build(cases)
        return {case.run: built[case.run][0] for case in cases if case.run is not None}

    def reading(self, cases: Sequence[Case], names: Collection[str]) -> list[Case]:
        """Return the cases whose runs read any profile of some names while they are built, or none at all."""
        built = self._build(cases)

        def reads(run: Run) -> bool:
            found = {name for _, name in built[run][1]}
            return not found or not found.isdisjoint(names)

        return [case for case in cases if case.run is not None and reads(case.run)]

    def _build(self, cases: Sequence[Case]) -> Mapping[Run, tuple[float, frozenset[Named]]]:
        """Build the runs of some cases, each once."""
        runs = dict.fromkeys(case.run for case in cases if case.run is not None)
        new = [run for run in runs if run not in self._built]
        self._built.update(zip(new, self.each(_built, new), strict=True))
        return self._built

    def each(
        self,
        work: Callable[[tuple[Task, Surroundings]], Answer],
        tasks: Sequence[Task],
        of_parcel: int = RUNS_OF_A_PARCEL,
    ) -> Iterator[Answer]:
        """Do work on each task, in the processes, and yield the answers in order.

        Args:
            work: Called with a task and what all have in common.
            tasks: The tasks.
            of_parcel: Tasks that are sent to a process at once; 1 for long ones.
        """
        sent = self._sent(tasks)
        for done, answer in enumerate(self._mapped(work, sent, of_parcel), 1):
            if self._progress is not None:
                self._progress(done, len(sent))
            yield answer

    def _key(self, run: Run, overlay: Overlay) -> tuple[Run, str]:
        """Return the cache key of a run: settings of profiles that it does not read are left out."""
        read = self._profiles.get(run)
        kept = sorted((list(named), own) for named, own in overlay.items() if read is None or named in read)
        return run, json.dumps(kept, sort_keys=True)

    def _simulate(self, runs: Sequence[Run], overlay: Overlay) -> Iterator[tuple[Run, Outcome]]:
        tasks = self._sent([(run, overlay) for run in runs])
        yield from zip(runs, self._mapped(outcome_of, tasks), strict=True)

    def _sent(self, tasks: Sequence[Task]) -> list[tuple[Task, Surroundings]]:
        """Each task with what all have in common."""
        around = Surroundings(self._left_out, current(), self._memo)
        return [(task, around) for task in tasks]

    def _mapped(
        self, work: Callable[[Task], Answer], tasks: Sequence[Task], of_parcel: int = RUNS_OF_A_PARCEL
    ) -> Iterator[Answer]:
        if self._pool is None:
            return map(work, tasks)
        with starting_workers():
            return self._pool.map(work, tasks, chunksize=of_parcel)

    def _prediction(self, case: Case, overlay: Overlay) -> Prediction:
        if case.run is None:
            return Prediction(case, reason=case.reason)
        outcome = self._found[self._key(case.run, overlay)]
        if outcome.reason:
            return Prediction(case, reason=outcome.reason)
        if case.figure not in outcome.figures:
            return Prediction(case, reason=f"the run has no {case.figure}")
        if not outcome.figures[case.figure]:
            return Prediction(case, reason=f"{case.figure} is 0: no request can be served")
        return Prediction(case, outcome.figures[case.figure] * case.scale, figures=outcome.figures)


def predict(cases: Sequence[Case], *, jobs: int = 1, progress: Progress | None = None) -> list[Prediction]:
    """Predict every case, in the order of the cases.

    Args:
        cases: The cases.
        jobs: Number of processes.
        progress: Called after each run.
    """
    with Simulations(jobs, progress) as simulations:
        return simulations.predict(cases)


def outcome_of(task: tuple[tuple[Run, Overlay], Surroundings]) -> Outcome:
    """Simulate one run with changed profiles, without some fits; or return its outcome if that is known."""
    (run, overlay), around = task
    if around.memo is None:
        return _simulated(run, overlay, around)
    return around.memo.outcome((run, around.left_out), overlay, lambda: _simulated(run, overlay, around))


def _simulated(run: Run, overlay: Overlay, around: Surroundings) -> Outcome:
    figures: Figures = {}
    reason = ""
    with _surrounded(around), overlaid(overlay), profiles_read() as read:
        try:
            figures = run.figures()
        except Unsupported as why:
            reason = str(why)
        except SimsysError as error:
            reason = f"failed: {error}"
    return Outcome(figures, reason, frozenset(read))


def _built(task: tuple[Run, Surroundings]) -> tuple[float, frozenset[Named]]:
    """Build a run; return its expected processor time and the profiles that it has read."""
    run, around = task
    with _surrounded(around), profiles_read() as read:
        expected_s = run.expected_cpu_s()
    return expected_s, frozenset(read)


@contextmanager
def _surrounded(around: Surroundings) -> Iterator[None]:
    with looked_for(around.modules), without_fits(around.left_out):
        yield
