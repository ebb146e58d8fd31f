"""A measured value, the run that predicts it, and the prediction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

Figures: TypeAlias = Mapping[str, float]
"""What a run found, by name."""
SMALLEST, LARGEST = 1e-12, 1e15
"""Of measured values, in any unit; beyond, a number is a mistake, and relative errors would not be finite."""


def measurable(value: float) -> bool:
    """Whether a number may have been measured.

    Example:
        >>> measurable(0.25), measurable(0.0), measurable(5e-324), measurable(float("nan"))
        (True, False, False, False)
    """
    return SMALLEST <= value <= LARGEST


class Unsupported(Exception):  # noqa: N818  # a row that cannot be predicted is an answer, not an error
    """A row that simsys cannot predict; the message is the reason, the same words for all rows of its kind."""


class Run(Protocol):
    """Something that can be simulated; equal runs are simulated once."""

    def figures(self) -> Figures:
        """Simulate it.

        Raises:
            Unsupported: If that shows that it cannot be predicted, such as a model that does not fit.
            SimsysError: If it cannot be built or carried out.
        """
        ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class Case:
    """One measured value.

    Args:
        id: Its name, unique in its table.
        family: ``training``, ``serving`` or ``collectives``.
        group: The source, or part of one, whose errors are averaged before those of groups are.
        metric: What was measured, such as ``iteration_s`` or ``tpot_ms``.
        unit: Its unit as in the table.
        measured: The value in that unit; NaN if the table has none.
        tags: What the summary tells cases apart by: ``strategy``, ``gpu``, ``engine``, ``model``, ``quality`` …
        fold: What is not divided between a fit and its test; by default the group.
        layouts: The same for cases that differ in nothing but their layout; empty if no others do.
        run: What predicts it; none if it is not supported.
        figure: Which of the run's figures.
        scale: That figure times this is in `unit`.
        reason: Why it is not supported.
        one_of_many: Whether it is of a single request of a run, which is summed up and not listed.
    """

    id: str
    family: str
    group: str
    metric: str
    unit: str
    measured: float
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)
    fold: str = ""
    layouts: str = ""
    run: Run | None = None
    figure: str = ""
    scale: float = 1.0
    reason: str = ""
    one_of_many: bool = False

    @property
    def setting(self) -> tuple[str, ...]:
        """What tells sets of cases of one group apart: GPU, engine, collective."""
        return tuple(self.tags.get(name, "") for name in ("gpu", "engine", "collective"))


@dataclass(frozen=True)
class Prediction:
    """What simsys says of a case.

    Args:
        case: The case.
        predicted: In the case's unit; none if it is not supported.
        reason: Why it is not.
        figures: All that the run found; none if it is not supported.
    """

    case: Case
    predicted: float | None = None
    reason: str = ""
    figures: Figures = field(default_factory=dict, compare=False, repr=False)

    @property
    def status(self) -> str:
        """``ok`` or ``unsupported``."""
        return "unsupported" if self.predicted is None else "ok"

    @property
    def error(self) -> float:
        """Predicted over measured, less one; 0.1 is 10 % too much.

        Raises:
            TypeError: If it is not supported.
        """
        if self.predicted is None:
            raise TypeError(f"{self.case.id} is not predicted")
        return self.predicted / self.case.measured - 1.0
