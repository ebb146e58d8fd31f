"""The problems of one scenario, each at the line that the user wrote."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

from simsys.config.document import KeyPath, Mark
from simsys.config.loader import ScenarioSource
from simsys.config.places import key_path
from simsys.config.setting import value_at
from simsys.config.validation import dotted, problem_at
from simsys.errors import ConfigError, Fix, InfeasibleConfigError, Problem, SimsysError

T = TypeVar("T")

ALIASES: dict[KeyPath, KeyPath] = {
    ("hardware", "gpu", "peak"): ("hardware", "compute_tflops"),
    ("hardware", "gpu", "memory"): ("hardware", "memory_gb"),
    ("hardware", "gpu"): ("hardware", "gpu_model"),
    ("hardware", "gpus_per_node"): ("hardware", "num_gpus_per_node"),
    ("hardware", "network_bandwidth"): ("hardware", "network_bandwidth_gbps"),
    ("hardware", "num_nodes"): ("training", "num_nodes"),
    ("network", "base_latency"): ("network", "base_latency_us"),
}
"""Aliases of settings, the longer paths first. An alias is one number or name and contains no further settings."""

_AT_THE_KEY = ("unknown key", "missing required")


def as_written(path: KeyPath, data: Mapping[str, Any]) -> KeyPath:
    """The path under which the user wrote a setting: the path of its alias, if `data` has only the alias.

    For a setting inside a plain value, it is the path of this value, such as ``output_tokens: 0`` for ``{tokens: 0}``.
    """
    for target, alias in ALIASES.items():
        if path[: len(target)] == target and value_at(data, target) is None and value_at(data, alias) is not None:
            return alias
    while len(path) > 1 and isinstance(value_at(data, path[:-1]), int | float | str):
        path = path[:-1]
    return path


def as_written_text(problem: Problem, data: Mapping[str, Any]) -> Problem:
    """The problem with the path under which the user wrote the setting."""
    path = key_path(problem.path)
    written = as_written(path, data)
    return problem if written == path else replace(problem, path=dotted(written))


def with_aliases(source: ScenarioSource) -> ScenarioSource:
    """The scenario with a `locate` that also finds settings written under an alias."""

    def locate(path: KeyPath, *, key: bool = False) -> Mark | None:
        return source.locate(as_written(path, source.data), key=key)

    return replace(source, locate=locate)


def unlocated(data: Mapping[str, Any]) -> ScenarioSource:
    """Settings that were made in Python, so that no setting has a line."""

    def locate(path: KeyPath, *, key: bool = False) -> Mark | None:
        return None

    return ScenarioSource(str(data.get("name", "")), dict(data), locate)


Remedy: TypeAlias = Mapping[str, Any]
"""Settings by dotted path, such as ``{"parallelism.tp_degree": 4}``."""


FITS = "{} would fit"
"""Text for settings with which the scenario has no problem."""
VALID = "{} would be valid (memory is checked once nothing else is wrong)"
"""Text for valid settings, if memory was not checked."""


@dataclass(frozen=True)
class Suggestion:
    """Settings that are proposed for an error, and reported only if they help.

    Args:
        groups: Alternatives, the best first. Each is a list of settings to try; the first helpful ones are reported.
        form: Text for the helpful settings.
        most: Most alternatives that are reported.
    """

    groups: Sequence[Sequence[Remedy]]
    form: str = FITS
    most: int = 3


@dataclass
class Findings:
    """Collects the problems of one scenario.

    Args:
        source: Where its settings were written.
        errors: Errors of the scenario.
        infeasible: Reasons why a valid scenario does not fit its hardware.
        doubts: Settings that may have an unintended meaning, without their places in the file.
        suggestions: Proposals for errors, by path and message of the error.
        limit_s: Largest processor time of its simulation (s).
    """

    source: ScenarioSource
    errors: list[Problem] = field(default_factory=list)
    infeasible: list[Problem] = field(default_factory=list)
    doubts: list[Problem] = field(default_factory=list)
    suggestions: dict[tuple[str, str], Suggestion] = field(default_factory=dict)
    limit_s: float = math.inf

    def written(self, path: KeyPath) -> bool:
        """Whether the user wrote this setting, under its name or an alias."""
        return value_at(self.source.data, as_written(path, self.source.data)) is not None

    def error(self, path: KeyPath, message: str, *, key: bool = False, suggestion: Suggestion | None = None) -> None:
        """Record an error of the value (or key) at `path`, with a suggestion that may help."""
        problem = self._problem(path, message, key=key)
        self.errors.append(problem)
        if suggestion is not None:
            self.suggestions[problem.path, problem.message] = suggestion

    def does_not_fit(self, path: KeyPath, message: str, fixes: Iterable[Fix] = ()) -> None:
        """Record that the value at `path` of a valid scenario does not fit the hardware; `fixes` would fit."""
        self.infeasible.append(replace(self._problem(path, message, key=False), fixes=tuple(fixes)))

    def warn(self, problem: Problem) -> None:
        """Record a warning about a scenario that can be simulated, once."""
        if problem not in self.doubts:
            self.doubts.append(problem)

    @property
    def warnings(self) -> list[Problem]:
        """The doubts with their places in the file."""
        return [self._problem(key_path(each.path), each.message, key=False) for each in self.doubts]

    def attempt(self, path: KeyPath, build: Callable[[], T], *, error_at: KeyPath | None = None) -> T | None:
        """Return the result of `build`; if it fails, record its error and return None.

        Args:
            path: The place of the problems of a `ConfigError` without a file: below this path, or at their own path if
                it begins with this path. Problems of another file, such as a profile, keep their place.
            build: The function to call.
            error_at: The place of any other error; `path` by default.
        """
        try:
            return build()
        except ConfigError as error:
            for problem in error.problems:
                self._adopt(path, problem)
        except SimsysError as error:
            self.error(error_at or path, str(error))
        return None

    def require(self) -> None:
        """Raise the recorded problems, if there are any.

        Raises:
            ConfigError: With every problem, if there is an error.
            InfeasibleConfigError: If the only problem is that the scenario does not fit its hardware.
        """
        if self.errors:
            raise ConfigError([*self.errors, *self.infeasible])
        if self.infeasible:
            raise InfeasibleConfigError(self.infeasible)

    def _adopt(self, path: KeyPath, problem: Problem) -> None:
        if problem.file:
            self.errors.append(problem)
            return
        inner = key_path(problem.path)
        at = inner if inner[:1] == path[:1] else (*path, *inner)
        self.error(at, problem.message, key=problem.message.startswith(_AT_THE_KEY))

    def _problem(self, path: KeyPath, message: str, *, key: bool) -> Problem:
        path = as_written(path, self.source.data)
        return replace(problem_at(self.source, path, message, key=key), path=dotted(path))
