"""Simulate cases, each run once, on one core or several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeAlias

from simsys.errors import SimsysError
from simsys.fidelity.case import Case, Figures, Prediction, Run, Unsupported

Outcome: TypeAlias = Figures | str
"""The figures of a run, or the reason why there are none."""

RUNS_OF_A_PARCEL = 16  # sent to another process at once


def predict(
    cases: Sequence[Case], *, jobs: int = 1, progress: Callable[[int, int], None] | None = None
) -> list[Prediction]:
    """Predict every case, in their order.

    Args:
        cases: The cases.
        jobs: Processes that simulate.
        progress: Called with the number of runs done and of all.
    """
    runs = list(dict.fromkeys(case.run for case in cases if case.run is not None))
    outcomes: dict[Run, Outcome] = {}
    for run, outcome in zip(runs, _outcomes(runs, jobs), strict=True):
        outcomes[run] = outcome
        if progress is not None:
            progress(len(outcomes), len(runs))
    return [_prediction(case, outcomes) for case in cases]


def outcome_of(run: Run) -> Outcome:
    """Simulate one run."""
    try:
        return run.figures()
    except Unsupported as reason:
        return str(reason)
    except SimsysError as error:
        return f"failed: {error}"


def _outcomes(runs: Sequence[Run], jobs: int) -> Iterable[Outcome]:
    if jobs == 1:
        return map(outcome_of, runs)
    return _in_processes(runs, jobs)


def _in_processes(runs: Sequence[Run], jobs: int) -> Iterator[Outcome]:
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(outcome_of, runs, chunksize=RUNS_OF_A_PARCEL)


def _prediction(case: Case, outcomes: dict[Run, Outcome]) -> Prediction:
    if case.run is None:
        return Prediction(case, reason=case.reason)
    outcome = outcomes[case.run]
    if isinstance(outcome, str):
        return Prediction(case, reason=outcome)
    if case.figure not in outcome:
        return Prediction(case, reason=f"the run has no {case.figure}")
    return Prediction(case, outcome[case.figure] * case.scale)
