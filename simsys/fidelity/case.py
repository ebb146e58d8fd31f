"""A measured value, the run that predicts it, and the prediction."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from simsys.config.hardware import Named

Figures: TypeAlias = Mapping[str, float]
"""Metrics of a run by name."""
SMALLEST, LARGEST = 1e-12, 1e15
"""Range of measured values in any unit; a number outside is a mistake, and relative errors would not be finite."""
POOLS = "pools"
"""The tag ``deployment`` of cases whose prefill and decode have replicas of their own."""


def measurable(value: float) -> bool:
    """Whether a number is in the range of measured values.

    Example:
        >>> measurable(0.25), measurable(0.0), measurable(5e-324), measurable(float("nan"))
        (True, False, False, False)
    """
    return SMALLEST <= value <= LARGEST


class Unsupported(Exception):  # noqa: N818  # a row that cannot be predicted is an answer, not an error
    """A row that simsys cannot predict; the message is the reason, with the same words for all rows of one kind."""


class Run(Protocol):
    """A simulation that predicts measured values; equal runs are simulated once."""

    def figures(self) -> Figures:
        """Simulate it.

        Raises:
            Unsupported: It cannot be predicted, such as a model that does not fit.
            SimsysError: It cannot be built or simulated.
        """
        ...

    def expected_cpu_s(self) -> float:
        """Return the approximate processor time of its simulation, which does not depend on the machine."""
        ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    Args:
        figures: Its figures.
        reason: Why there are none; empty if there are.
        profiles: The profiles that it read.
    """

    figures: Figures
    reason: str
    profiles: frozenset[Named]


@dataclass(frozen=True)
class Case:
    """One measured value.

    Args:
        id: Its name, unique in its table.
        family: ``training``, ``serving`` or ``collectives``.
        group: The source or a part of it; each group has the same weight in mean errors.
        metric: The measured quantity, such as ``iteration_s`` or ``tpot_ms``.
        unit: Its unit as in the table.
        measured: The value in that unit; NaN if the table has none.
        tags: Properties by which summaries group cases: ``strategy``, ``gpu``, ``engine``, ``model``, ``quality`` …;
            ``deployment`` is `POOLS` where prefill and decode have replicas of their own.
        fold: Cases of one fold are not divided between a fit and its test; the group by default.
        layouts: Equal for cases that differ only in their layout; empty if they are not ranked.
        run: The simulation that predicts it; None if it is not supported.
        figure: The name of its metric in the figures of the run.
        scale: Factor from that figure to `unit`.
        reason: Why it is not supported.
        one_of_many: Whether it is a value of one request of a run; such values are summarised, not listed.
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
        """GPU, engine and collective, by which a group is divided into sets of cases."""
        return tuple(self.tags.get(name, "") for name in ("gpu", "engine", "collective"))


@dataclass(frozen=True)
class Prediction:
    """The prediction of a case.

    Args:
        case: The case.
        predicted: The value in the case's unit; None if it is not supported.
        reason: Why it is not supported.
        figures: All metrics of the run; empty if it is not supported.
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
        """Relative error: predicted over measured, minus 1; 0.1 is 10 % too much.

        Raises:
            TypeError: If it is not supported.
        """
        if self.predicted is None:
            raise TypeError(f"{self.case.id} is not predicted")
        return self.predicted / self.case.measured - 1.0


LOST = math.log(10.0)
"""Logarithmic error of a row that can no longer be predicted."""


def log_error(prediction: Prediction) -> float:
    """Return the logarithm of predicted over measured; `LOST` without a prediction."""
    if prediction.predicted is None or prediction.predicted <= 0.0:
        return LOST
    return math.log(prediction.predicted / prediction.case.measured)
