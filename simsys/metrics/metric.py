"""Definition of a metric: name, unit, meaning, and the results that have it."""

from __future__ import annotations

from dataclasses import dataclass

TRAINING, SERVING, JOBS = "training", "serving", "jobs"


@dataclass(frozen=True)
class Metric:
    """One metric.

    Args:
        name: As in `RunResult.metrics`.
        unit: Unit of its value; empty for a count.
        meaning: Its meaning, in a sentence.
        kinds: Kinds of results that have it.
        only: Condition for having it, such as ``with slo``.
        absent: Its value if a result does not have it; None if there is none.
        is_number: True if it can be compared with a number; else it is a text or a table.
    """

    name: str
    unit: str
    meaning: str
    kinds: tuple[str, ...] = ()
    only: str = ""
    absent: float | None = None
    is_number: bool = True
