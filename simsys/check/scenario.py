"""Whether scenarios can be simulated: names, options, degrees, precisions, workloads and memory, all at once.

The schema says what a file may hold; this says what fits together, at the line of the value that is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from simsys.build.job import gpus_of, job_of
from simsys.build.serving import ServingJob
from simsys.build.training import TrainingJob
from simsys.check.advice import advice, memory_fixes
from simsys.check.clusters import Clusters
from simsys.check.effort import check_effort
from simsys.check.engines import check_engine, check_support
from simsys.check.exceptions import check_exceptions
from simsys.check.failures import check_failures
from simsys.check.findings import Findings, Lever, Suggestion, as_written_text, unlocated, with_aliases
from simsys.check.jobs import jobs_of
from simsys.check.levers import changed, memory_problem
from simsys.check.model import check_model, source_path
from simsys.check.names import check_hardware, check_modules, check_pattern, check_precision
from simsys.check.nearest import nearest_divisors
from simsys.check.parallelism import check_parallelism
from simsys.check.replicas import check_replicas
from simsys.check.salvage import salvage, still_true
from simsys.check.serving import check_defaults, check_serving_options
from simsys.check.sizes import check_sizes
from simsys.check.suggestions import settle
from simsys.check.trials import Trials
from simsys.check.workload import check_workload
from simsys.config.experiment import JOB_SECTIONS, JobConfig, SimulationConfig
from simsys.config.loader import ScenarioSource
from simsys.config.places import key_path
from simsys.config.scenarios import read_sources
from simsys.config.validation import validate
from simsys.errors import ConfigError, Fix, InfeasibleConfigError, Problem, UsageError


class Verdict(NamedTuple):
    """What a check of one scenario has found.

    Args:
        errors: What is wrong with it.
        infeasible: What does not fit although nothing is wrong.
        warnings: What may have been meant otherwise than it was understood.
    """

    errors: list[Problem]
    infeasible: list[Problem]
    warnings: list[Problem]


def check_file(
    path: Path,
    assignments: Sequence[str] = (),
    names: Sequence[str] = (),
    *,
    memory: bool = True,
    limit_s: float = math.inf,
    warn: Callable[[Problem], None] = lambda _: None,
) -> list[SimulationConfig]:
    """Read, validate and check all scenarios of a file.

    Args:
        path: The experiment file.
        assignments: Settings from the command line, such as ``"parallelism.tp_degree=4"``.
        names: Which scenarios; all if empty.
        memory: Whether they have to fit into device memory too.
        limit_s: Processor time that the simulation of one of them may take, as estimated.
        warn: Called with what is doubtful about them, each problem once.

    Returns:
        The scenarios, all of which can be simulated.

    Raises:
        ConfigError: With every problem of every scenario, in file order.
        InfeasibleConfigError: If all that is wrong is that scenarios do not fit their hardware.
        UsageError: If an assignment is malformed.
    """
    scenarios: list[SimulationConfig] = []
    errors: dict[Problem, None] = {}  # ordered sets: a problem in the defaults is met once per scenario
    infeasible: dict[Problem, None] = {}
    doubtful: dict[Problem, None] = {}
    for source in map(with_aliases, read_sources(path, assignments, names)):
        try:
            config = validate(source, SimulationConfig).located_in(path.resolve().parent)
        except ConfigError as error:
            errors |= dict.fromkeys(as_written_text(problem, source.data) for problem in error.problems)
            errors |= dict.fromkeys(_check_the_rest(source, path.resolve().parent))
            continue
        scenarios.append(config)
        verdict = check_scenario(source, config, memory=memory, limit_s=limit_s)
        errors |= dict.fromkeys(verdict.errors)
        infeasible |= dict.fromkeys(verdict.infeasible)
        doubtful |= dict.fromkeys(verdict.warnings)
    for problem in doubtful:
        warn(problem)
    if errors:
        raise ConfigError([*errors, *infeasible])
    if infeasible:
        raise InfeasibleConfigError(list(infeasible))
    return scenarios


def check_config(config: SimulationConfig) -> list[Problem]:
    """What is wrong with a scenario that was made in Python; the problems have paths but no lines."""
    verdict = _verdict(config)
    return [*verdict.errors, *verdict.infeasible]


def require_sound(config: SimulationConfig) -> None:
    """Refuse a scenario that was made in Python exactly where `check_file` refuses it in a file.

    Raises:
        ConfigError: With every problem, if something is wrong.
        InfeasibleConfigError: If all that is wrong is that it does not fit its hardware.
    """
    verdict = _verdict(config)
    if verdict.errors:
        raise ConfigError([*verdict.errors, *verdict.infeasible])
    if verdict.infeasible:
        raise InfeasibleConfigError(verdict.infeasible)


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
        limit_s: Processor time that its simulation may take, as estimated.
    """
    if config.jobs is None:
        return _check_one(source, config, memory=memory, limit_s=limit_s)
    errors: dict[Problem, None] = {}  # what is wrong with the cluster is met once per job
    infeasible: dict[Problem, None] = {}
    warnings: dict[Problem, None] = {}
    for each in jobs_of(source, config):
        verdict = _check_one(each.source, each.config, each.job, memory=memory, limit_s=limit_s / len(config.jobs))
        errors |= dict.fromkeys(each.in_the_file(verdict.errors))
        infeasible |= dict.fromkeys(each.in_the_file(verdict.infeasible))
        warnings |= dict.fromkeys(each.in_the_file(verdict.warnings))
    return Verdict(list(errors), list(infeasible), list(warnings))


def _check_one(
    source: ScenarioSource, config: SimulationConfig, job: JobConfig | None = None, *, memory: bool, limit_s: float
) -> Verdict:
    """Check a scenario that is one job: `job` of several, or all."""
    found, clusters = Findings(with_aliases(source), limit_s=limit_s), Clusters()
    unfit = _look_into(config, job, found, clusters, memory=memory)
    trials = trials_of(config, job, source, clusters, memory=memory)
    if unfit is not None:
        _say_what_would_fit(unfit, trials, found)
    elif found.suggestions:
        settle(found, trials, lambda lever: _furthered(trials, job, lever, clusters), memory=memory)
    return Verdict(found.errors, found.infeasible, found.warnings)


def _furthered(trials: Trials, job: JobConfig | None, lever: Lever, clusters: Clusters) -> list[Fix] | None:
    """A lever with what makes the scenario fit; None if with the lever it is not sound, or fits."""
    config = changed(trials.config, lever)
    unfit = _look_into(config, job, Findings(unlocated({})), clusters, memory=True)
    if unfit is None:
        return None
    fixes = memory_fixes(unfit.job, trials_of(config, job, clusters=clusters), unfit.shortest, measured=False)
    return trials.passing(replace(fix, edits={**lever, **fix.edits}) for fix in fixes)


def trials_of(
    config: SimulationConfig,
    job: JobConfig | None = None,
    source: ScenarioSource | None = None,
    clusters: Clusters | None = None,
    *,
    memory: bool = True,
) -> Trials:
    """Checks a scenario with other settings; of one of several jobs, with others of those that it gives itself.

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
        unfit = _look_into(other, job, found, clusters, memory=memory)
        if unfit is not None:
            found.does_not_fit((), unfit.problem)
        return [*found.errors, *found.infeasible]

    own = None if job is None else [name for name in JOB_SECTIONS if getattr(job, name) is not None]
    return Trials(config, check, own)


class _Unfit(NamedTuple):
    """A job that is sound but does not fit into memory, why, and the shortest request that it should have room for."""

    job: TrainingJob | ServingJob
    problem: str
    shortest: int


def _look_into(
    config: SimulationConfig, job: JobConfig | None, found: Findings, clusters: Clusters, *, memory: bool
) -> _Unfit | None:
    """Book what is wrong with a scenario; return the job if all that is wrong is that it does not fit into memory."""
    if not check_sizes(config, found):
        return None
    spec = check_hardware(config, found)
    model = check_model(config, found)
    if spec is not None:
        check_precision(config, spec, model, found)
    engine = check_engine(config, found)
    cluster = None
    if spec is not None:
        cluster = found.attempt((), lambda: clusters.of(config), error_at=("hardware",))
    if cluster is not None and job is not None:
        gpus = gpus_of(config, job, cluster.num_gpus)
        if gpus > cluster.num_gpus:
            found.does_not_fit(("gpus",), f"{gpus} GPUs are needed, the cluster has {cluster.num_gpus}")
            return None
        cluster = cluster.part(range(gpus))
    settled = check_defaults(config, engine, cluster, model, found)
    check_modules(config, settled, found)
    check_pattern(config, cluster, found)
    if cluster is not None and cluster.exceptions:
        check_exceptions(config, cluster, model, found)
    if cluster is not None:
        check_failures(config, cluster, found)
    if cluster is not None and engine is not None:
        check_support(config, cluster, engine, found)
    check_parallelism(config, cluster, model, found)
    check_serving_options(config, spec, engine, model, settled, found)
    if cluster is not None and not found.errors:
        check_replicas(config, cluster, model, found)
    shortest = check_workload(config, model, settled, found)
    if not found.errors and cluster is not None and model is not None and engine is not None:
        resolved = job_of(config, cluster, model)
        for problem in resolved.warnings():
            found.warn(problem)
        sound = isinstance(resolved, ServingJob) or _can_shard(resolved, found)
        if sound and memory and (lack := memory_problem(resolved, shortest)):
            return _Unfit(resolved, lack, shortest)
        if sound:
            check_effort(resolved, found, job)
    return None


def _check_the_rest(source: ScenarioSource, folder: Path) -> list[Problem]:
    """What else is wrong with a scenario that does not fit the schema."""
    rest = salvage(source.data)
    if rest is None:
        return []
    config, touched = rest
    return still_true(check_scenario(source, config.located_in(folder), memory=False).errors, touched)


def _can_shard(job: TrainingJob, found: Findings) -> bool:
    """Whether model states can be divided as the options of data parallelism say; books the option if not."""
    options = job.settings.options
    try:
        _ = job.shards
    except UsageError as error:
        key = next((key for key in options if key in str(error)), None)
        path = ("training", "options") if key is None else ("training", "options", key)
        value = options.get(key or "")
        suggestion = None
        if key is not None and isinstance(value, int):
            near = nearest_divisors(job.layout.replicas, value)
            suggestion = Suggestion([[{f"training.options.{key}": each}] for each in near])
        found.error(path, str(error), suggestion=suggestion)
        return False
    return True


def _say_what_would_fit(unfit: _Unfit, trials: Trials, found: Findings) -> None:
    """Book that a job does not fit, and what would make it fit; the caret points at the first setting of that."""
    fixes = memory_fixes(unfit.job, trials, unfit.shortest)
    edited = [key_path(setting) for setting in (fixes[0].edits if fixes else ())]
    place = next((path for path in edited if found.written(path)), source_path(unfit.job.config.model))
    found.does_not_fit(place, f"{unfit.problem}; {advice(fixes)}", fixes)
