"""Every error that simsys raises on purpose, one tree.

::

    SimsysError                 exit code 4 unless a subclass says otherwise
    ├── UsageError              2  the caller asked for something that does not exist or fit
    │   ├── ConfigError         2  one or more problems in a file, each with its place
    │   ├── SettingError        2  a setting that turns out wrong while the scenario is simulated
    │   ├── UnknownNameError    2  a name that no registry or folder knows ("did you mean")
    │   └── TraceError          2  a trace that cannot be read, with the row
    ├── InfeasibleError         3  a valid scenario that does not fit
    │   ├── InfeasibleConfigError 3  scenarios of a file that do not fit, each with its place
    │   └── OutOfMemoryError    3  an allocation beyond a device's memory
    ├── OutputError             2  a result that could not be written
    ├── TrainingError           1  a real training run that failed: a lost rank, a loss that is no number
    ├── DeadlockError           4  operations that wait for each other
    └── InternalError           4  a broken invariant: a bug in simsys
"""

from __future__ import annotations

import difflib
import re
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any


class SimsysError(Exception):
    """Base of all errors that simsys raises on purpose; the command line returns `exit_code`."""

    exit_code = 4


class UsageError(SimsysError):
    """The caller asked for something that does not exist or does not fit together."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Fix:
    """Settings with which a scenario passes the check that it failed.

    Args:
        edits: The settings by dotted path, such as ``{"parallelism.tp_degree": 4}``.
        note: Their savings and costs, for people; empty if unknown.
        figures: The note as data for JSON.
        alone: True if the scenario passes with these; False if other problems remain.
    """

    edits: Mapping[str, Any]
    note: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)
    alone: bool = True

    def as_dict(self) -> dict[str, Any]:
        """The fix as data for JSON."""
        edits = [{"path": path, "value": value} for path, value in self.edits.items()]
        return {"edits": edits, "alone": self.alone, **self.figures}


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem in a file.

    Args:
        message: The problem, the allowed values, and a suggestion if there is one.
        path: Dotted place inside the document, such as ``hardware.gpu``; empty for the whole file.
        file: File name as the user wrote it; empty if the settings came from Python.
        line: Line, counted from 1; 0 if unknown.
        column: Column, counted from 1; 0 if unknown.
        source: The source line, for the caret; empty if unknown.
        fixes: Settings that make the scenario pass, the best first; each was tried.
    """

    message: str
    path: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    source: str = ""
    fixes: tuple[Fix, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        head = ": ".join(part for part in (place, self.path, self.message) if part)
        if not self.source or not self.column:
            return head
        return f"{head}\n    {self.source}\n    {' ' * (self.column - 1)}^"


class ConfigError(UsageError):
    """One or more problems in a configuration; `problems` holds them in file order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = _in_file_order(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class SettingError(UsageError):
    """A setting whose error shows only while the scenario is simulated.

    Args:
        path: Dotted path of the setting in the scenario, such as ``jobs[1]``.
        message: The problem and the allowed values.
    """

    def __init__(self, path: str, message: str) -> None:
        self.path = path
        super().__init__(message)


class UnknownNameError(UsageError):
    """A name that nothing knows; the message names the nearest known one.

    Args:
        kind: What it is the name of.
        name: The name.
        known: The known names.
        remedy: What to do if no known one is near.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str], remedy: str = "") -> None:
        self.kind, self.name, self.known = kind, name, tuple(sorted(known))
        nearest = did_you_mean(name.rpartition("/")[2], self.known)
        advice = f"; {remedy}" if remedy and not nearest.startswith(", did") else ""
        super().__init__(f"unknown {kind} {name!r}{nearest}{advice}")


class TraceError(UsageError):
    """A trace, of requests or of a run, that cannot be read; the message names the file and the row."""


class InfeasibleError(SimsysError):
    """A valid scenario that does not fit.

    Args:
        message: The limit and remedies.
        path: Dotted path of the setting that decides, if it is not the model; such as ``hardware``.
    """

    exit_code = 3

    def __init__(self, message: str, path: str = "") -> None:
        self.path = path
        super().__init__(message)


class InfeasibleConfigError(InfeasibleError):
    """Well-formed scenarios that do not fit their hardware; `problems` holds them in file order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = _in_file_order(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    @property
    def in_one_line(self) -> str:
        """The problems with their places, without the lines of the file."""
        return "; ".join(str(replace(problem, source="")) for problem in self.problems)


class OutOfMemoryError(InfeasibleError):
    """An allocation that exceeds a device's memory."""


class OutputError(SimsysError):
    """A result that could not be written; nothing was left half-written."""

    exit_code = 2


class TrainingError(SimsysError):
    """A real training run that failed, such as by a lost rank or a loss that is no number."""

    exit_code = 1


class DeadlockError(SimsysError):
    """Operations that wait for each other; the message lists each rank and what it waits for."""


class InternalError(SimsysError):
    """A broken invariant: a bug in simsys, not in the input."""


def _in_file_order(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    return tuple(sorted(problems, key=lambda p: (p.file, p.line, p.column)))


def causes(error: BaseException) -> list[BaseException]:
    """An error and its chain of causes: processes of a simulation wrap errors in new ones."""
    found = [error]
    while (cause := found[-1].__cause__) is not None and cause not in found:
        found.append(cause)
    return found


def described(error: BaseException) -> str:
    """An unexpected error with its location, which may be in a user's module."""
    text = str(error) or type(error).__name__
    frames = traceback.extract_tb(causes(error)[-1].__traceback__)
    return f"{text} in {frames[-1].name} ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else text


ALIKE = 3
"""Most names that are suggested since they have a word of the wrong name."""


def _words(name: object) -> list[str]:
    return re.split(r"[^a-z0-9]+", str(name).lower())


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """Return ``", did you mean 'x'?"`` for the closest known name, or a few with a word of it; else known names.

    Examples:
        >>> did_you_mean("H1000", ["H100", "A100"])
        ", did you mean 'H100'?"
        >>> did_you_mean("tpu", ["H100", "A100"])
        '; known: A100, H100'
        >>> did_you_mean("aws-p5", ["p5.48xlarge", "p4d.24xlarge"])
        ", did you mean 'p5.48xlarge'?"
    """
    names = sorted(str(name) for name in known)
    lowered = {name.lower(): name for name in reversed(names)}
    close = difflib.get_close_matches(str(given).lower(), lowered, n=1, cutoff=0.6)
    if close:
        return f", did you mean {lowered[close[0]]!r}?"
    wanted = {word for word in _words(given) if len(word) > 1 and not word.isalpha()}
    alike = [name for name in names if wanted.intersection(_words(name))]
    if 0 < len(alike) <= ALIKE:
        return f", did you mean {' or '.join(map(repr, alike))}?"
    return f"; known: {listed(names)}" if names else ""


def listed(names: Iterable[str]) -> str:
    """Names in order, the first of them if they are many."""
    found = sorted(names)
    return ", ".join(found if len(found) <= 12 else [*found[:12], f"… ({len(found)} in all)"])
