"""What a check has found in one scenario, each problem at the line that the user wrote."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

from simsys.config.document import KeyPath, Mark
from simsys.config.loader import ScenarioSource
from simsys.config.places import key_path
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
"""Other names of settings; the longer paths first. Below an alias there is nothing: it holds one number or name."""

_AT_THE_KEY = ("unknown key", "missing required")


def as_written(path: KeyPath, data: Mapping[str, Any]) -> KeyPath:
    """The path under which the user wrote a setting: that of its alias if `data` has only the alias.

    Below a plain value there is nothing: of ``output_tokens: 0``, which stands for ``{tokens: 0}``, it is the former.
    """
    for target, alias in ALIASES.items():
        if path[: len(target)] == target and not _has(data, target) and _has(data, alias):
            return alias
    while len(path) > 1 and isinstance(_value(data, path[:-1]), int | float | str):
        path = path[:-1]
    return path


def as_written_text(problem: Problem, data: Mapping[str, Any]) -> Problem:
    """A problem whose path is that under which the user wrote the setting."""
    path = key_path(problem.path)
    written = as_written(path, data)
    return problem if written == path else replace(problem, path=dotted(written))


def with_aliases(source: ScenarioSource) -> ScenarioSource:
    """The same scenario, whose `locate` also finds settings that were written under an alias."""

    def locate(path: KeyPath, *, key: bool = False) -> Mark | None:
        return source.locate(as_written(path, source.data), key=key)

    return replace(source, locate=locate)


def unlocated(data: Mapping[str, Any]) -> ScenarioSource:
    """Settings that came from Python, so that nothing has a line."""

    def locate(path: KeyPath, *, key: bool = False) -> Mark | None:
        return None

    return ScenarioSource(str(data.get("name", "")), dict(data), locate)


Lever: TypeAlias = Mapping[str, Any]
"""Settings by dotted path, such as ``{"parallelism.tp_degree": 4}``."""


FITS = "{} would fit"
"""Of settings with which nothing is wrong."""
VALID = "{} would be valid (memory is checked once nothing else is wrong)"
"""Of settings that are right, where memory could not be checked."""


@dataclass(frozen=True)
class Suggestion:
    """Settings that are proposed beside an error, and said only if they help.

    Args:
        groups: Alternatives, the best first; of each the settings to try one after another, of which the first that
            help are said.
        form: What is said of those that help.
        most: How many of them are said.
    """

    groups: Sequence[Sequence[Lever]]
    form: str = FITS
    most: int = 3


@dataclass
class Findings:
    """Collects the problems of one scenario.

    Args:
        source: Where its settings were written.
        errors: What is wrong with it.
        infeasible: What does not fit although nothing is wrong.
        warnings: What may have been meant otherwise than it was understood.
        suggestions: What is proposed beside errors, by their path and message.
        limit_s: Processor time that its simulation may take.
    """

    source: ScenarioSource
    errors: list[Problem] = field(default_factory=list)
    infeasible: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    suggestions: dict[tuple[str, str], Suggestion] = field(default_factory=dict)
    limit_s: float = math.inf

    def written(self, path: KeyPath) -> bool:
        """Whether the user wrote this setting, under its name or an alias."""
        return _has(self.source.data, as_written(path, self.source.data))

    def error(self, path: KeyPath, message: str, *, key: bool = False, suggestion: Suggestion | None = None) -> None:
        """Something is wrong with the value (or key) at `path`; a suggestion may help."""
        problem = self._problem(path, message, key=key)
        self.errors.append(problem)
        if suggestion is not None:
            self.suggestions[problem.path, problem.message] = suggestion

    def does_not_fit(self, path: KeyPath, message: str, fixes: Iterable[Fix] = ()) -> None:
        """The scenario is well-formed, but the value at `path` asks for what does not fit; `fixes` would."""
        self.infeasible.append(replace(self._problem(path, message, key=False), fixes=tuple(fixes)))

    def warn(self, problem: Problem) -> None:
        """The scenario can be simulated, but `problem` says what is doubtful about it."""
        self.warnings.append(self._problem(key_path(problem.path), problem.message, key=False))

    def attempt(self, path: KeyPath, build: Callable[[], T], *, error_at: KeyPath | None = None) -> T | None:
        """Return what `build` makes; None, with its error booked, if it fails.

        Args:
            path: Where the problems of a `ConfigError` stand: those without a file below this path (or, if their own
                path begins like it, at that); those of another file, such as a profile, keep their place there.
            build: What may fail.
            error_at: Where any other error stands; `path` by default.
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
        """Raise what was booked, if anything was.

        Raises:
            ConfigError: With every problem, if something is wrong.
            InfeasibleConfigError: If all that is wrong is that the scenario does not fit its hardware.
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


def _has(data: object, path: KeyPath) -> bool:
    """Whether nested mappings and lists have a value at a path."""
    return _value(data, path) is not None


def _value(data: object, path: KeyPath) -> Any:
    """What nested mappings and lists have at a path; None if nothing."""
    inner: Any = data
    for part in path:
        try:
            inner = inner[part]
        except (KeyError, IndexError, TypeError):
            return None
    return inner
