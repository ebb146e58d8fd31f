"""What a file of measurements holds: cases, rows that cannot be read, and what is doubtful."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from simsys.errors import ConfigError, Problem
from simsys.fidelity.case import Case


@dataclass(frozen=True)
class Reading:
    """The measurements of one file.

    Args:
        file: Its path as the user wrote it.
        cases: Those that can be read.
        problems: What is wrong with the others, each at its place.
        warnings: What makes the comparison doubtful, for people.
    """

    file: str
    cases: Sequence[Case]
    problems: Sequence[Problem] = ()
    warnings: Sequence[str] = ()


def check(readings: Iterable[Reading]) -> None:
    """Give up if anything in some files cannot be read.

    Raises:
        ConfigError: With all problems.
    """
    problems = [problem for reading in readings for problem in reading.problems]
    if problems:
        raise ConfigError(problems)
