"""Host costs of an engine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HostCosts:
    """Host time that an engine spends around a step, in seconds."""

    per_step_s: float = 0.0
    per_sequence_s: float = 0.0
