"""Simulate cases, each run once, on one core or several, with profiles as they are or with other numbers in them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from types import TracebackType
from typing import Any, Self, TypeAlias

from simsys.config.hardware import Named, overlaid, profiles_read, without_fits_to
from simsys.errors import SimsysError
from simsys.fidelity.case import Case, Figures, Prediction, Run, Unsupported
from simsys.user_modules import UserModules, current, looked_for
from simsys.workers import begin_work, starting_workers

Overlay: TypeAlias = Mapping[Named, Mapping[str, Any]]
"""Settings of profiles that are to replace those of their files."""
Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of runs done and of all."""

RUNS_OF_A_PARCEL = 8  # sent to another process at once


@dataclass(frozen=True)
class Outcome:
    """What became of a run.

    Args:
        figures: What it found.
        reason: Why it found nothing.
        profiles: The profiles that it read.
        cpu_s: Processor time that it took.
    """

    figures: Figures
    reason: str
    profiles: frozenset[Named]
    cpu_s: float


class Simulations:
    """Simulates runs and remembers what they found, for as long as it is entered.

    Args:
        jobs: Processes that simulate.
        progress: Told how far it is.
        kept_from: Tables to which nothing has been fitted that profiles say here.
    """

    def __init__(self, jobs: int = 1, progress: Progress | None = None, kept_from: Sequence[str] = ()) -> None:
        self._jobs, self._progress, self._kept_from = jobs, progress, kept_from
        self._pool: ProcessPoolExecutor | None = None
        self._profiles: dict[Run, frozenset[Named]] = {}
        self._cpu_s: dict[Run, float] = {}
        self._found: dict[tuple[Run, str], Outcome] = {}

    def __enter__(self) -> Self:
        if self._jobs > 1:
            self._pool = ProcessPoolExecutor(self._jobs, mp_context=get_context("spawn"), initializer=begin_work)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def predict(self, cases: Sequence[Case], overlay: Overlay | None = None) -> list[Prediction]:
        """Predict every case, in their order.

        Args:
            cases: The cases.
            overlay: Other numbers in profiles.
        """
        overlay = overlay or {}
        runs = list(dict.fromkeys(case.run for case in cases if case.run is not None))
        new = [run for run in runs if self._key(run, overlay) not in self._found]
        for done, (run, outcome) in enumerate(self._simulate(new, overlay), 1):
            self._profiles[run], self._cpu_s[run] = outcome.profiles, outcome.cpu_s
            self._found[self._key(run, overlay)] = outcome
            if self._progress is not None:
                self._progress(done, len(new))
        return [self._prediction(case, overlay) for case in cases]

    def profiles(self, run: Run) -> frozenset[Named]:
        """The profiles that a run has read, once it has been simulated."""
        return self._profiles[run]

    def cpu_s(self, run: Run) -> float:
        """Processor time of a run, the last time that it was simulated."""
        return self._cpu_s[run]

    def _key(self, run: Run, overlay: Overlay) -> tuple[Run, str]:
        """What decides the outcome of a run: the numbers in the profiles that it reads."""
        read = self._profiles.get(run)
        kept = sorted((list(named), own) for named, own in overlay.items() if read is None or named in read)
        return run, json.dumps(kept, sort_keys=True)

    def _simulate(self, runs: Sequence[Run], overlay: Overlay) -> Iterator[tuple[Run, Outcome]]:
        tasks = [(run, overlay, self._kept_from, current()) for run in runs]
        if self._pool is None:
            outcomes: Iterator[Outcome] = map(outcome_of, tasks)
        else:
            with starting_workers():
                outcomes = self._pool.map(outcome_of, tasks, chunksize=RUNS_OF_A_PARCEL)
        yield from zip(runs, outcomes, strict=True)

    def _prediction(self, case: Case, overlay: Overlay) -> Prediction:
        if case.run is None:
            return Prediction(case, reason=case.reason)
        outcome = self._found[self._key(case.run, overlay)]
        if outcome.reason:
            return Prediction(case, reason=outcome.reason)
        if case.figure not in outcome.figures:
            return Prediction(case, reason=f"the run has no {case.figure}")
        return Prediction(case, outcome.figures[case.figure] * case.scale, figures=outcome.figures)


def predict(cases: Sequence[Case], *, jobs: int = 1, progress: Progress | None = None) -> list[Prediction]:
    """Predict every case, in their order.

    Args:
        cases: The cases.
        jobs: Processes that simulate.
        progress: Called with the number of runs done and of all.
    """
    with Simulations(jobs, progress) as simulations:
        return simulations.predict(cases)


def outcome_of(task: tuple[Run, Overlay, Sequence[str], UserModules]) -> Outcome:
    """Simulate one run, with other numbers in profiles, and without what was fitted to some tables."""
    run, overlay, kept_from, modules = task
    figures: Figures = {}
    reason, started_s = "", time.process_time()
    with looked_for(modules), without_fits_to(kept_from), overlaid(overlay), profiles_read() as read:
        try:
            figures = run.figures()
        except Unsupported as why:
            reason = str(why)
        except SimsysError as error:
            reason = f"failed: {error}"
    return Outcome(figures, reason, frozenset(read), time.process_time() - started_s)
