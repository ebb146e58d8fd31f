"""The work of a search in several processes: closed forms, and candidates simulated, the most promising first."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import replace
from enum import Enum
from functools import partial
from itertools import islice
from math import inf
from multiprocessing import get_context
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from simsys.build.job import Job, assemble
from simsys.build.rules.findings import Findings, unlocated
from simsys.build.serving import ServingJob
from simsys.capacity import greatest_rate, steady_state
from simsys.capacity.judgement import judged
from simsys.capacity.rate import TOLERANCE
from simsys.capacity.until_missed import UntilMissed
from simsys.check.clusters import Clusters
from simsys.check.remedies import changed, memory_problem
from simsys.config.experiment import SimulationConfig
from simsys.errors import SimsysError
from simsys.metrics.result import RunResult
from simsys.searches.goal import Goal
from simsys.simulation import simulate_job
from simsys.user_modules import UserModules, current, looked_for
from simsys.workers import begin_work, end_workers, starting_workers

ROUGH = 0.1
"""Tolerance of a greatest rate that is to be refined."""
FEW = 8
"""Simulations below which processes are not worth their start."""

WORSE = "not better than the best found before"
MISSED = "the SLO is missed by a simulation"
"""Reasons of a candidate whose simulation ended early."""

Given = TypeVar("Given")
Found = TypeVar("Found")


class Run(Enum):
    """What is simulated of a candidate: the scenario, its steady state, or the greatest rate that meets the SLO."""

    ONCE = 0
    STEADY = 1
    GREATEST_RATE = 2
    ROUGH_RATE = 3
    """The greatest rate with a tolerance of 10 %."""


class Task(NamedTuple):
    """One candidate to simulate.

    Args:
        config: The scenario without a search.
        settings: The settings of the candidate, and others of the run.
        modules: Modules of the user's own.
        run: What is simulated.
        goal: What is best, if a bound of it may end the simulation.
        most_key: The key of the goal from which the candidate is of no use.
        judged: Whether the candidate is of no use if it misses its SLO.
    """

    config: SimulationConfig
    settings: dict[str, Any]
    modules: UserModules
    run: Run = Run.ONCE
    goal: Goal | None = None
    most_key: float = inf
    judged: bool = False

    def useless(self, result: RunResult) -> bool:
        """Whether a result, or the lower bound that it is, shows that the candidate is of no use."""
        value = None if self.goal is None else result.metrics.get(self.goal.metric)
        return value is not None and self.goal is not None and self.goal.key(float(value)) > self.most_key


class Outcome(NamedTuple):
    """The metrics of a candidate, or the reason why it was not simulated."""

    metrics: dict[str, Any]
    reason: str = ""


_clusters = Clusters()


def simulated(task: Task) -> Outcome:
    """Check and simulate a candidate, as `simsys run` does."""
    config = changed(task.config, task.settings)
    try:
        with looked_for(task.modules):
            job = checked_job(config)
            if isinstance(job, str):
                return Outcome({}, job)
            if task.run is Run.ONCE:
                return _once(job, task)
            return _steady(config) if task.run is Run.STEADY else _greatest_rate(config, task.run)
    except SimsysError as error:
        return Outcome({}, str(error))


def _once(job: Job, task: Task) -> Outcome:
    """The metrics of a scenario as it is; the run ends early if it is known to be of no use."""
    rule = None
    if task.judged and isinstance(job, ServingJob) and not job.ends_early:
        rule = UntilMissed(job.slo)
        job = replace(job, stop=rule)
    result = simulate_job(job, enough=task.useless)
    if rule is not None and rule.missed:
        return Outcome({}, MISSED)
    return Outcome({}, WORSE) if task.useless(result) else Outcome(dict(result.metrics))


def checked_job(config: SimulationConfig) -> Job | str:
    """The job of a scenario, built and checked as `simsys run` does, or the reason why it cannot be simulated.

    Raises:
        SimsysError: If a part of it cannot be built.
    """
    found = Findings(unlocated({}))
    made = assemble(config, found, None, _clusters.of)
    if made is None:
        return [*found.errors, *found.infeasible][0].message
    return memory_problem(made[0], made[1].shortest_request_tokens) or made[0]


def _steady(config: SimulationConfig) -> Outcome:
    """The metrics of the steady state; a run that is known to miss the SLO ends early."""
    state = steady_state(config) if config.slo is None else judged(config).state
    return Outcome(dict(state.metrics), "" if state.metrics else state.text)


def _greatest_rate(config: SimulationConfig, run: Run) -> Outcome:
    """The metrics at the greatest rate that meets the SLO."""
    found = greatest_rate(config, tolerance=ROUGH if run is Run.ROUGH_RATE else TOLERANCE)
    return Outcome(dict(found.metrics), "" if found.metrics else "no rate meets the targets")


class Simulations:
    """Works in several processes, or in this one if there is one.

    Args:
        jobs: Number of processes.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self.cpu_s = 0.0
        """CPU time of `map` in other processes."""
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Simulations:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._pool is not None:
            end_workers(self._pool)  # also without an error, since they need time to tidy up

    def map(self, function: Callable[[Given], Found], items: Sequence[Given]) -> Iterator[Found]:
        """The results of a function for each item, in order, as the built-in `map`.

        Args:
            function: A function that can be sent to other processes.
            items: Its arguments.
        """
        if self.jobs <= 1:
            yield from map(function, items)
            return
        for each in [self._submit(partial(_timed, function, current()), item) for item in items]:
            found, cpu_s = each.result()
            self.cpu_s += cpu_s
            yield found

    def run(self, tasks: Iterable[Task], most: int) -> Iterator[tuple[int, Outcome]]:
        """Simulate tasks in order.

        Args:
            tasks: The tasks; each is asked for when its turn comes, so a generator may take account of earlier
                outcomes, and end.
            most: Largest number of tasks.

        Yields:
            The place of a task and its outcome, in any order.
        """
        if self.jobs <= 1 or (self._pool is None and most < FEW):
            for place, task in enumerate(tasks):
                yield place, simulated(task)
            return
        running: dict[Future[Outcome], int] = {}
        waiting = enumerate(tasks)
        while True:
            for place, task in islice(waiting, self.jobs + 1 - len(running)):
                running[self._submit(simulated, task)] = place
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for each in sorted(done, key=lambda future: running[future]):
                yield running.pop(each), each.result()

    def _submit(self, function: Callable[[Given], Found], item: Given) -> Future[Found]:
        with starting_workers():
            if self._pool is None:
                self._pool = ProcessPoolExecutor(self.jobs, mp_context=get_context("spawn"), initializer=begin_work)
            return self._pool.submit(function, item)


def _timed(function: Callable[[Given], Found], modules: UserModules, item: Given) -> tuple[Found, float]:
    """The result of a function, and the CPU time of it."""
    started_s = time.process_time()
    with looked_for(modules):
        found = function(item)
    return found, time.process_time() - started_s
