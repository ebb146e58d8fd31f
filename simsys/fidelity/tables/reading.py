"""The content of a file of measurements: cases, problems of rows, and warnings."""

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
        cases: The cases of the rows that can be read.
        problems: Problems of the other rows, with file, line and column.
        warnings: Reasons to doubt the comparison, as sentences.
    """

    file: str
    cases: Sequence[Case]
    problems: Sequence[Problem] = ()
    warnings: Sequence[str] = ()


def check(readings: Iterable[Reading]) -> None:
    """Check that all rows of some files can be read.

    Raises:
        ConfigError: With all problems.
    """
    problems = [problem for reading in readings for problem in reading.problems]
    if problems:
        raise ConfigError(problems)
