"""Scenarios of an experiment file: defaults merged in, settings overridden, every value with its place.

A file holds one scenario, or ``defaults`` and a list of ``scenarios``. `read_document` and `validate` are offered
from here too, so that one import is enough to load a file.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from simsys.config.document import Document, KeyPath, Mark, parse_document, parse_value, read_document
from simsys.config.setting import has_setting, with_setting
from simsys.config.validation import Locate, problem_at, validate, validate_all
from simsys.errors import ConfigError, Problem, UnknownNameError, UsageError

__all__ = [
    "Document",
    "KeyPath",
    "Locate",
    "Mark",
    "ScenarioSource",
    "apply_overrides",
    "deep_merge",
    "override",
    "parse_document",
    "problem_at",
    "read_document",
    "read_sources",
    "scenario_sources",
    "validate",
    "validate_all",
]


@dataclass(frozen=True, slots=True)
class ScenarioSource:
    """One scenario of a file before validation.

    Args:
        name: The scenario's name, unique in the file.
        data: Its settings, with the file's defaults merged in.
        locate: Finds the place of a setting: in the scenario, in the defaults, or on the command line.
    """

    name: str
    data: dict[str, Any]
    locate: Locate


def scenario_sources(document: Document) -> list[ScenarioSource]:
    """Return the scenarios of a file, in order.

    Raises:
        ConfigError: Scenarios without a name or with equal names, or a root that mixes both forms.
    """
    if "scenarios" not in document.data and "defaults" not in document.data:
        return [_single(document)]
    problems = _root_problems(document)
    if problems:
        raise ConfigError(problems)
    defaults = document.data.get("defaults") or {}
    first: dict[str, int] = {}
    sources = []
    for index, scenario in enumerate(document.data["scenarios"]):
        problem = _invalid(document, index, scenario, first)
        if problem:
            problems.append(problem)
            continue
        first[scenario["name"]] = index
        locate = _LocateInFile(document, ("scenarios", index))
        sources.append(ScenarioSource(scenario["name"], deep_merge(defaults, scenario), locate))
    if problems:
        raise ConfigError(problems)
    return sources


def _single(document: Document) -> ScenarioSource:
    """Return the only scenario of a file, named after the file unless it has a name."""
    name = document.data.get("name", PurePath(document.name).stem)
    if not isinstance(name, str) or not name:
        raise ConfigError([problem_at(document, ("name",), "a scenario's name is text")])
    return ScenarioSource(name, {"name": name, **document.data}, document.locate)


def _root_problems(document: Document) -> list[Problem]:
    """Check the keys and types at the root of a file with several scenarios."""
    data = document.data
    problems = [
        problem_at(
            document,
            (key,),
            f"{key!r} is not allowed next to 'scenarios'; put it into 'defaults' or a scenario",
            key=True,
        )
        for key in data
        if key not in ("defaults", "scenarios")
    ]
    if not isinstance(data.get("defaults"), dict | None):
        problems.append(problem_at(document, ("defaults",), "the defaults are a mapping ('key: value' lines)"))
    if not isinstance(data.get("scenarios"), list) or not data["scenarios"]:
        message = "a list of at least one scenario ('- name: ...') is needed with 'defaults'"
        problems.append(problem_at(document, ("scenarios",), message, key=True))
    return problems


def _invalid(document: Document, index: int, scenario: object, first: Mapping[str, int]) -> Problem | None:
    """Report problems of a scenario's form or name; `first` maps the names of earlier scenarios to their places."""
    here: KeyPath = ("scenarios", index)
    if not isinstance(scenario, dict):
        return problem_at(document, here, "a scenario is a mapping ('key: value' lines)")
    if "name" not in scenario:
        return problem_at(document, here, "missing required key 'name'")
    name = scenario["name"]
    if not isinstance(name, str) or not name:
        return problem_at(document, (*here, "name"), "a scenario's name is text")
    if name in first:
        earlier = document.mark(("scenarios", first[name], "name"))
        where = f" on line {earlier.line}" if earlier else ""
        return problem_at(document, (*here, "name"), f"the name {name!r} is taken by a scenario{where}")
    return None


@dataclass(frozen=True, slots=True)
class _LocateInFile:
    """Finds a setting in the scenario, else in the file's defaults, else the nearest mapping or list around it."""

    document: Document
    scenario: KeyPath

    def __call__(self, path: KeyPath, *, key: bool = False) -> Mark | None:
        for base in (self.scenario, ("defaults",)):
            if path and (found := self.document.mark((*base, *path), key=key)):
                return found
        return self(path[:-1], key=True) if path else self.document.mark(self.scenario)


@dataclass(frozen=True, slots=True)
class _LocateOverride:
    """Names the assignment for a path at or below an overridden one, and the file for all other paths."""

    assignments: Sequence[tuple[KeyPath, str]]
    file: Locate
    added: frozenset[KeyPath]

    def __call__(self, path: KeyPath, *, key: bool = False) -> Mark | None:
        for target, assignment in reversed(self.assignments):
            if path[: len(target)] == target or (path in self.added and target[: len(path)] == path):
                return Mark(f"--set {assignment}")
        return self.file(path, key=key)


def deep_merge(defaults: Mapping[str, Any], scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults with a scenario's settings merged over them.

    Mappings are merged key by key; everything else, lists included, is replaced. A mapping with another ``kind`` than
    the default replaces it completely, because kinds have different keys.

    Example:
        >>> deep_merge({"hardware": {"profile": "dgx-h100", "num_nodes": 1}}, {"hardware": {"num_nodes": 4}})
        {'hardware': {'profile': 'dgx-h100', 'num_nodes': 4}}
    """
    merged = {key: value if key in scenario else _copied(value) for key, value in defaults.items()}
    for key, value in scenario.items():
        default = merged.get(key)
        if isinstance(default, dict) and isinstance(value, Mapping) and _same_kind(default, value):
            merged[key] = deep_merge(default, value)
        else:
            merged[key] = _copied(value)
    return merged


def _copied(data: Any) -> Any:
    """A copy of settings. `copy.deepcopy` is several times slower, and a fit merges thousands of profiles."""
    if isinstance(data, dict):
        return {key: _copied(value) for key, value in data.items()}
    return [_copied(value) for value in data] if isinstance(data, list) else data


def _same_kind(default: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
    return "kind" not in value or value["kind"] == default.get("kind")


def apply_overrides(data: Mapping[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """Return data with settings from the command line.

    Args:
        data: A scenario's settings; not changed.
        assignments: Such as ``"parallelism.tp_degree=4"``; the value is YAML (`4`, `5 ms`, `[1, 2]`, `{a: 1}`). Later
            ones win; mappings on the way are created, and a profile's name becomes a profile that extends it.

    Raises:
        UsageError: An assignment of another form, or one that goes through a value that is no mapping.
    """
    changed = copy.deepcopy(dict(data))
    for assignment in assignments:
        path, value = _assignment(assignment)
        changed = with_setting(changed, path, value, f"--set {assignment}")
    return changed


def _assignment(text: str) -> tuple[tuple[str, ...], Any]:
    """Split ``a.b=c`` into its path and value."""
    left, equals, right = text.partition("=")
    path = tuple(part.strip() for part in left.split("."))
    if not equals or not all(path):
        raise UsageError(f"--set {text}: write a path, '=' and a value, e.g. --set parallelism.tp_degree=4")
    try:
        return path, parse_value(right, f"--set {text}")
    except ConfigError as error:
        reason = error.problems[0].message
        raise UsageError(f"--set {text}: {reason}; write e.g. --set parallelism.tp_degree=4") from None


def override(source: ScenarioSource, assignments: Sequence[str]) -> ScenarioSource:
    """Return a scenario with settings from the command line; problems in them name the assignment, not the file.

    Raises:
        UsageError: As `apply_overrides`.
    """
    data = apply_overrides(source.data, assignments)
    targets = [(_assignment(assignment)[0], assignment) for assignment in assignments]
    ways = {path[:depth] for path, _ in targets for depth in range(1, len(path))}
    added = frozenset(way for way in ways if not has_setting(source.data, way))
    name = data.get("name")
    locate = _LocateOverride(targets, source.locate, added)
    return replace(source, name=name if isinstance(name, str) else source.name, data=data, locate=locate)


def read_sources(path: Path, assignments: Sequence[str] = (), names: Sequence[str] = ()) -> list[ScenarioSource]:
    """The scenarios of a file before validation, with ``--set`` assignments applied to each.

    Args:
        path: The experiment file.
        assignments: Settings from the command line.
        names: Which scenarios; all if empty.

    Raises:
        UnknownNameError: If there is no scenario of such a name.
    """
    sources = scenario_sources(read_document(path))
    known = [source.name for source in sources]
    for name in names:
        if name not in known:
            raise UnknownNameError("scenario", name, known)
    return [override(source, assignments) for source in sources if not names or source.name in names]
