"""What is known of a metric: its name, its unit, what it means, and which results have it."""

from __future__ import annotations

from dataclasses import dataclass

TRAINING, SERVING, JOBS = "training", "serving", "jobs"


@dataclass(frozen=True)
class Metric:
    """One metric.

    Args:
        name: As in `RunResult.metrics`.
        unit: Of its value; empty for a count.
        meaning: What it is, in a sentence.
        kinds: Kinds of results that have it.
        only: Which of them, if not all, such as ``with slo``.
        absent: What it is where a result leaves it out; None if there is no such value.
        is_number: Whether it can be compared with a number; else it is a text or a table.
    """

    name: str
    unit: str
    meaning: str
    kinds: tuple[str, ...] = ()
    only: str = ""
    absent: float | None = None
    is_number: bool = True
