"""Checks whether scenarios can be simulated: names, options, degrees, precisions, workloads and memory.

The schema checks each value of a file; this module checks whether the values fit together, and reports all problems at
their lines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from simsys.build.job import Built, Job, assemble, together
from simsys.build.rules.findings import (
    Findings,
    Remedy,
    as_written_text,
    unlocated,
    with_aliases,
)
from simsys.build.rules.model import source_path
from simsys.check.advice import advice, memory_fixes
from simsys.check.clusters import Clusters
from simsys.check.effort import check_effort
from simsys.check.jobs import jobs_of
from simsys.check.remedies import changed, memory_problem
from simsys.check.suggestions import settle
from simsys.check.trials import Trials
from simsys.check.valid_part import salvage, still_true
from simsys.config.experiment import JOB_SECTIONS, JobConfig, SimulationConfig
from simsys.config.hardware import profiles_read
from simsys.config.loader import ScenarioSource, read_sources
from simsys.config.places import key_path
from simsys.config.validation import validate
from simsys.errors import ConfigError, Fix, InfeasibleConfigError, Problem

HELD_REQUESTS = 1_000_000
"""Requests that all scenarios of a file may keep between check and run, about 100 MB; requests of further scenarios
are drawn again."""


class Verdict(NamedTuple):
    """The result of the check of one scenario.

    Args:
        errors: Its errors.
        infeasible: Reasons why a valid scenario does not fit its hardware.
        warnings: Settings that may have an unintended meaning.
        built: The built scenario; None if it has any problem.
    """

    errors: list[Problem]
    infeasible: list[Problem]
    warnings: list[Problem]
    built: Built | None = None


class _Collected:
    """Problems of several scenarios or jobs. A problem that they share is reported once."""

    def __init__(self) -> None:
        self.errors: dict[Problem, None] = {}  # ordered sets
        self.infeasible: dict[Problem, None] = {}
        self.warnings: dict[Problem, None] = {}

    def add(self, verdict: Verdict, placed: Callable[[list[Problem]], Iterable[Problem]] = iter) -> None:
        """Add the problems of a check, after `placed` has added their places in the file."""
        self.errors |= dict.fromkeys(placed(verdict.errors))
        self.infeasible |= dict.fromkeys(placed(verdict.infeasible))
        self.warnings |= dict.fromkeys(placed(verdict.warnings))


def check_file(
    path: Path,
    assignments: Sequence[str] = (),
    names: Sequence[str] = (),
    *,
    memory: bool = True,
    limit_s: float = math.inf,
    warn: Callable[[Problem], None] = lambda _: None,
) -> list[Built]:
    """Read, validate, build and check all scenarios of a file.

    Args:
        path: The experiment file.
        assignments: Settings from the command line, such as ``"parallelism.tp_degree=4"``.
        names: Names of the scenarios to check; all if empty.
        memory: Whether they have to fit into device memory too.
        limit_s: Largest estimated processor time (s) of the simulation of one scenario.
        warn: Called with the warnings, each once.

    Returns:
        The built scenarios, all of which can be simulated.

    Raises:
        ConfigError: With every problem of every scenario, in file order.
        InfeasibleConfigError: If the only problem is that scenarios do not fit their hardware.
        UsageError: If an assignment is malformed.
    """
    held, scenarios, of_all = 0, list[Built](), _Collected()
    for source in map(with_aliases, read_sources(path, assignments, names)):
        try:
            config = validate(source, SimulationConfig).located_in(path.resolve().parent)
        except ConfigError as error:
            of_all.errors |= dict.fromkeys(as_written_text(problem, source.data) for problem in error.problems)
            of_all.errors |= dict.fromkeys(_check_the_rest(source, path.resolve().parent))
            continue
        verdict = check_scenario(source, config, memory=memory, limit_s=limit_s)
        if verdict.built is not None:
            held += verdict.built.num_requests
            scenarios.append(verdict.built if held <= HELD_REQUESTS else verdict.built.without_requests())
        of_all.add(verdict)
    for problem in of_all.warnings:
        warn(problem)
    if of_all.errors:
        raise ConfigError([*of_all.errors, *of_all.infeasible])
    if of_all.infeasible:
        raise InfeasibleConfigError(list(of_all.infeasible))
    return scenarios


def check_config(config: SimulationConfig) -> list[Problem]:
    """Check a scenario that was made in Python; its problems have paths but no lines."""
    verdict = _verdict(config)
    return [*verdict.errors, *verdict.infeasible]


def sound(config: SimulationConfig) -> Built:
    """Build a scenario that was made in Python; refuse it exactly where `check_file` refuses it in a file.

    Raises:
        ConfigError: With every problem of the scenario.
        InfeasibleConfigError: If the only problem is that it does not fit its hardware.
    """
    verdict = _verdict(config)
    if verdict.errors:
        raise ConfigError([*verdict.errors, *verdict.infeasible])
    if verdict.built is None:
        raise InfeasibleConfigError(verdict.infeasible)
    return verdict.built


def judged(config: SimulationConfig, clusters: Clusters | None = None) -> Verdict:
    """Check a scenario as `sound` does, without proposals of other settings, which take most of the time.

    Args:
        config: The scenario.
        clusters: Builds its cluster, and keeps it for further scenarios.
    """
    if config.jobs is not None:
        return _verdict(config)
    found = Findings(unlocated(config.model_dump(exclude_unset=True)))
    made = _look_into(config, None, found, clusters or Clusters(), memory=True)
    if isinstance(made, _Unfit):
        found.does_not_fit((), made.problem)
        made = None
    built = None if found.errors or found.infeasible else made
    return Verdict(found.errors, found.infeasible, found.warnings, built)


def _verdict(config: SimulationConfig) -> Verdict:
    return check_scenario(unlocated(config.model_dump(exclude_unset=True)), config)


def check_scenario(
    source: ScenarioSource, config: SimulationConfig, *, memory: bool = True, limit_s: float = math.inf
) -> Verdict:
    """Check one valid scenario, or each of its jobs.

    Args:
        source: Where its settings were written.
        config: The scenario.
        memory: Whether it has to fit into device memory too.
        limit_s: Largest estimated processor time (s) of its simulation.
    """
    clusters = Clusters()
    if config.jobs is None:
        return _check_one(source, config, clusters, memory=memory, limit_s=limit_s)
    of_all, built = _Collected(), list[Built]()
    for each in jobs_of(source, config):
        limit = limit_s / len(config.jobs)
        verdict = _check_one(each.source, each.config, clusters, each.job, memory=memory, limit_s=limit)
        of_all.add(verdict, each.in_the_file)
        built += [] if verdict.built is None else [verdict.built]
    whole = together(config, built) if len(built) == len(config.jobs) else None
    return Verdict(list(of_all.errors), list(of_all.infeasible), list(of_all.warnings), whole)


def _check_one(
    source: ScenarioSource,
    config: SimulationConfig,
    clusters: Clusters,
    job: JobConfig | None = None,
    *,
    memory: bool,
    limit_s: float,
) -> Verdict:
    """Check a scenario of one job: `job` of several, or the whole scenario."""
    found = Findings(with_aliases(source), limit_s=limit_s)
    made = _look_into(config, job, found, clusters, memory=memory)
    trials = trials_of(config, job, source, clusters, memory=memory)
    if isinstance(made, _Unfit):
        _say_what_would_fit(made, trials, found)
    elif found.suggestions:
        settle(found, trials, lambda remedy: _furthered(trials, job, remedy, clusters), memory=memory)
    built = made if isinstance(made, Built) and not found.errors and not found.infeasible else None
    return Verdict(found.errors, found.infeasible, found.warnings, built)


def _furthered(trials: Trials, job: JobConfig | None, remedy: Remedy, clusters: Clusters) -> list[Fix] | None:
    """A remedy with further fixes that make the scenario fit; None if it leaves an error, or suffices alone."""
    config = changed(trials.config, remedy)
    made = _look_into(config, job, Findings(unlocated({})), clusters, memory=True)
    if not isinstance(made, _Unfit):
        return None
    fixes = memory_fixes(made.job, trials_of(config, job, clusters=clusters), made.shortest, measured=False)
    return trials.passing(replace(fix, edits={**remedy, **fix.edits}) for fix in fixes)


def trials_of(
    config: SimulationConfig,
    job: JobConfig | None = None,
    source: ScenarioSource | None = None,
    clusters: Clusters | None = None,
    *,
    memory: bool = True,
) -> Trials:
    """Return trials of a scenario with other settings; for one of several jobs, only its own settings change.

    Args:
        config: The scenario.
        job: Which of several jobs it is.
        source: Where its settings were written.
        clusters: Builds the clusters.
        memory: Whether it has to fit into device memory too.
    """
    clusters = clusters or Clusters()
    place = source or unlocated(config.model_dump(exclude_unset=True))

    def check(other: SimulationConfig) -> list[Problem]:
        found = Findings(with_aliases(place))
        made = _look_into(other, job, found, clusters, memory=memory)
        if isinstance(made, _Unfit):
            found.does_not_fit((), made.problem)
        return [*found.errors, *found.infeasible]

    own = None if job is None else [name for name in JOB_SECTIONS if getattr(job, name) is not None]
    return Trials(config, check, own)


class _Unfit(NamedTuple):
    """A valid job that does not fit into memory, the reason, and the shortest request that has to fit."""

    job: Job
    problem: str
    shortest: int


def _look_into(
    config: SimulationConfig, job: JobConfig | None, found: Findings, clusters: Clusters, *, memory: bool
) -> Built | _Unfit | None:
    """Build a scenario and record its problems; None if it has a problem other than memory."""
    with profiles_read() as read:
        made = assemble(config, found, job, clusters.of)
    if made is None:
        return None
    resolved, parts = made
    for problem in resolved.warnings():
        found.warn(problem)
    if memory and (lack := memory_problem(resolved, parts.shortest_request_tokens)):
        return _Unfit(resolved, lack, parts.shortest_request_tokens)
    check_effort(resolved, found, job)
    return Built(config, clusters.of(config), (resolved,), read)


def _check_the_rest(source: ScenarioSource, folder: Path) -> list[Problem]:
    """Add the problems of the valid part of a scenario that does not fit the schema."""
    rest = salvage(source.data)
    if rest is None:
        return []
    config, touched = rest
    return still_true(check_scenario(source, config.located_in(folder), memory=False).errors, touched)


def _say_what_would_fit(unfit: _Unfit, trials: Trials, found: Findings) -> None:
    """Record that a job does not fit, with remedies; the caret points at the first setting of the best remedy."""
    fixes = memory_fixes(unfit.job, trials, unfit.shortest)
    edited = [key_path(setting) for setting in (fixes[0].edits if fixes else ())]
    place = next((path for path in edited if found.written(path)), source_path(unfit.job.config.model))
    found.does_not_fit(place, f"{unfit.problem}; {advice(fixes)}", fixes)
