"""Sweeps of an experiment file, checked before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from simsys.build.rules.findings import Findings, unlocated, with_aliases
from simsys.build.rules.own_metrics import own_names_exist
from simsys.config.document import KeyPath, Mark
from simsys.config.experiment import SimulationConfig
from simsys.config.loader import ScenarioSource, read_sources, validate
from simsys.config.places import key_path
from simsys.config.setting import has_setting, with_setting
from simsys.config.sweep import SweepConfig
from simsys.config.validation import dotted, problem_at
from simsys.errors import ConfigError, Problem, UsageError, did_you_mean
from simsys.metrics.definitions import metrics_by_name
from simsys.sweeps.space import Axis, axes_of, combinations

SEED = "simulation.seed"
SECTION = "sweep"


@dataclass(frozen=True)
class SweepPlan:
    """A sweep whose settings are known to exist.

    Args:
        source: The scenario without its section ``sweep``.
        config: The section.
        folder: The folder from which relative paths start.
        axes: The axes of its space.
        first: The scenario of the first point.
    """

    source: ScenarioSource
    config: SweepConfig
    folder: Path
    axes: Sequence[Axis]
    first: SimulationConfig

    @property
    def name(self) -> str:
        """The scenario's name."""
        return self.source.name

    @property
    def paths(self) -> list[str]:
        """The paths of the settings that vary."""
        return [path for axis in self.axes for path in axis.paths]

    def data(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a point.

        Args:
            values: Values by path.

        Raises:
            UsageError: If a path leads through a value.
        """
        return with_settings(self.source.data, values)


def with_settings(data: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return data with settings changed by path; raises as `with_setting`."""
    changed = dict(data)
    for path, value in values.items():
        changed = with_setting(changed, key_path(path), value, path)
    return changed


def has_sweep(source: ScenarioSource) -> bool:
    """Whether a scenario has a section ``sweep``."""
    return source.data.get(SECTION) is not None


def read_plans(path: Path, assignments: Sequence[str] = (), names: Sequence[str] = ()) -> list[SweepPlan]:
    """Read and check the sweeps of a file.

    Args:
        path: The experiment file.
        assignments: Settings from the command line.
        names: The scenarios whose sweeps are wanted; all with a sweep if empty.

    Raises:
        ConfigError: With every problem of the sections, and of the values of every setting that varies.
        UsageError: If there is no sweep.
    """
    sources = read_sources(path, assignments, names)
    found = [source for source in sources if has_sweep(source)]
    if not found or (names and len(found) < len(sources)):
        lacking = ", ".join(source.name for source in sources if not has_sweep(source))
        raise UsageError(f"{path}: no section 'sweep' in {lacking}; write e.g. sweep: {{over: {{KEY: [1, 2, 4]}}}}")
    plans, problems = list[SweepPlan](), dict[Problem, None]()
    for source in found:
        try:
            plans.append(plan_of(source, path.resolve().parent))
        except ConfigError as error:
            problems |= dict.fromkeys(error.problems)
    if problems:
        raise ConfigError(list(problems))
    return plans


def plan_of(source: ScenarioSource, folder: Path) -> SweepPlan:
    """Check the sweep of one scenario: each value of each setting, with the first values of all others.

    Args:
        source: The scenario with its section ``sweep``.
        folder: The folder from which relative paths start.

    Raises:
        ConfigError: With every problem.
    """
    config = validate(source, SweepConfig, at=(SECTION,))
    base = replace(source, data={key: value for key, value in source.data.items() if key != SECTION})
    axes = axes_of(config)
    paths = [path for axis in axes for path in axis.paths]
    values = dict(zip(paths, next(combinations(axes)), strict=True))
    first, found = _checked(base, config, values)
    problems = dict.fromkeys(found)
    for axis in axes if first is not None else ():
        problems |= dict.fromkeys(_problems_of(axis, values, base, config))
    if first is not None:
        problems |= dict.fromkeys(_unknown_metrics(config, first, source))
    if problems or first is None:
        raise ConfigError(list(problems))
    return SweepPlan(base, config, folder, axes, first.located_in(folder))


def _problems_of(
    axis: Axis, values: Mapping[str, Any], base: ScenarioSource, config: SweepConfig
) -> Iterator[Problem]:
    """Problems of the values of an axis that are at the settings themselves, not in their combination."""
    targets = [dotted(key_path(path)) for path in axis.paths]
    for row in axis.rows[1:]:
        _, problems = _checked(base, config, {**values, **dict(zip(axis.paths, row, strict=True))})
        for problem in problems:
            if any(f"{problem.path}.".startswith((f"{target}.", f"{target}[")) for target in targets):
                yield problem


def _unknown_metrics(config: SweepConfig, first: SimulationConfig, source: ScenarioSource) -> Iterator[Problem]:
    found = Findings(with_aliases(source))
    own_names_exist(first.simulation, found)
    yield from found.errors
    defined = metrics_by_name().items()
    known = {name for name, metric in defined if first.kind in metric.kinds and metric.is_number}
    for index, name in enumerate(config.metrics):
        if name not in known:
            message = f"{name!r} is no numeric metric of {first.kind}{did_you_mean(name, known)}"
            yield problem_at(source, (SECTION, "metrics", index), message)


def point_source(base: ScenarioSource, config: SweepConfig, values: Mapping[str, Any]) -> ScenarioSource:
    """The settings of a point, with the places of settings that vary in the section ``sweep``.

    Args:
        base: The scenario.
        config: Its section ``sweep``.
        values: The settings that vary, by path.

    Raises:
        UsageError: If a path leads through a value.
    """
    places = {key_path(path): (key, value) for path, key, value in _places(config, values)}

    def locate(path: KeyPath, *, key: bool = False) -> Mark | None:
        for target, (key_place, value_place) in places.items():
            if path[: len(target)] == target:
                return base.locate(key_place if key else value_place, key=key)
            if target[: len(path)] == path and key and not has_setting(base.data, path):
                return base.locate(key_place, key=True)
        return base.locate(path, key=key)

    return with_aliases(replace(base, data=with_settings(base.data, values), locate=locate))


def _checked(
    base: ScenarioSource, config: SweepConfig, values: Mapping[str, Any]
) -> tuple[SimulationConfig | None, Sequence[Problem]]:
    """The validated scenario of a point, or its problems."""
    try:
        return validate(point_source(base, config, values), SimulationConfig), []
    except ConfigError as error:
        return None, error.problems
    except UsageError as error:
        return None, [problem_at(base, (SECTION,), str(error), key=True)]


def _places(config: SweepConfig, values: Mapping[str, Any]) -> Iterator[tuple[str, KeyPath, KeyPath]]:
    """Each setting that varies, with the places of its key and of its value."""
    groups: list[tuple[KeyPath, Mapping[str, Any]]] = [((SECTION, "over"), config.over)]
    groups += [((SECTION, "zip", index), group) for index, group in enumerate(config.zip)]
    groups += [((SECTION, "sample", "over"), config.sample.over)] if config.sample is not None else []
    for place, group in groups:
        for path, given in group.items():
            listed = isinstance(given, list) and values.get(path) in given
            yield path, (*place, path), (*place, path, given.index(values[path])) if listed else (*place, path)


def plan_in_python(config: SimulationConfig, sweep: SweepConfig) -> SweepPlan:
    """The plan of a sweep that was made in Python; raises as `plan_of`."""
    data = config.model_dump(mode="json", exclude_unset=True, by_alias=True)
    source = unlocated({**data, SECTION: sweep.model_dump(mode="json", exclude_unset=True)})
    return plan_of(replace(source, name=config.name), config.folder)
