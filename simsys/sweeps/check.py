"""What `simsys check` says of sweeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from simsys.check import check_file, check_scenario, judged
from simsys.check.clusters import Clusters
from simsys.config.experiment import SimulationConfig
from simsys.config.loader import read_sources, validate
from simsys.errors import ConfigError, InfeasibleConfigError, Problem
from simsys.sweeps.plan import SweepPlan, has_sweep, plan_of, point_source
from simsys.sweeps.points import changes, points_of

SAMPLED = 8
"""Points that are checked with all rules."""


@dataclass(frozen=True)
class Checked:
    """The scenarios of a file.

    Args:
        names: The scenarios without a section ``sweep``, in the order of the file.
        sweeps: The numbers of points of the sweeps, by scenario.
    """

    names: Sequence[str]
    sweeps: dict[str, int]


def check_with_sweeps(
    path: Path, assignments: Sequence[str] = (), warn: Callable[[Problem], None] = lambda _: None
) -> Checked:
    """Check all scenarios of a file; of a sweep every key and value, its conditions, and some points with all rules.

    A sweep is refused if none of these points can be simulated; if some can, the others have rows with their reasons.

    Args:
        path: The experiment file.
        assignments: Settings from the command line.
        warn: Called with the warnings.

    Raises:
        ConfigError: With every problem.
        InfeasibleConfigError: If the only problem is that scenarios do not fit their hardware.
    """
    sources = read_sources(path, assignments)
    swept = [source for source in sources if has_sweep(source)]
    plain = [source.name for source in sources if not has_sweep(source)]
    names, counts = list[str](), dict[str, int]()
    errors, infeasible = dict[Problem, None](), dict[Problem, None]()
    try:
        names = [built.config.name for built in check_file(path, assignments, plain, warn=warn)] if plain else []
    except ConfigError as error:
        errors |= dict.fromkeys(error.problems)
    except InfeasibleConfigError as error:
        infeasible |= dict.fromkeys(error.problems)
    for source in swept:
        try:
            plan = plan_of(source, path.resolve().parent)
            counts[source.name] = _count(plan)
        except ConfigError as error:
            errors |= dict.fromkeys(error.problems)
        except InfeasibleConfigError as error:
            infeasible |= dict.fromkeys(error.problems)
    if errors:
        raise ConfigError([*errors, *infeasible])
    if infeasible:
        raise InfeasibleConfigError(list(infeasible))
    return Checked(names, counts)


def _count(plan: SweepPlan) -> int:
    """The number of points of a sweep of which some can be simulated; the first point's problems are raised if not."""
    points = points_of(plan)
    errors, infeasible, clusters = list[Problem](), list[Problem](), Clusters()
    for point in points[:: max(1, (len(points) - 1) // (SAMPLED - 1))][:SAMPLED]:
        source = point_source(plan.source, plan.config, changes(plan, point))
        try:
            config = validate(source, SimulationConfig).located_in(plan.folder)
        except ConfigError as error:
            errors = errors or list(error.problems)
            continue
        verdict = judged(config, clusters)
        if verdict.built is not None:
            return len(points)
        if (verdict.errors and not errors) or (verdict.infeasible and not infeasible):
            verdict = check_scenario(source, config)  # with lines and proposals, which take most of the time
            errors, infeasible = errors or verdict.errors, infeasible or verdict.infeasible
    if infeasible:
        raise InfeasibleConfigError([_of_all(each) for each in infeasible])
    raise ConfigError([_of_all(each) for each in errors])


def _of_all(problem: Problem) -> Problem:
    return replace(problem, message=f"no tested point of the sweep can be simulated; the first: {problem.message}")
