"""What an analysis of the user's own finds in a result."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Observation:
    """What an analysis of the user's own has found.

    Args:
        severity: From 0 (nothing) to 1.
        evidence: The figures, for people.
        recommendations: Remedies.
    """

    severity: float
    evidence: str
    recommendations: tuple[str, ...] = ()
