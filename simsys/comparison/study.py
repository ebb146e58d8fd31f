"""Scenarios compared, one after another, and everything that is said of them: data for tables, plot and page."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from typing import Any

import simpy

import simsys
from simsys.comparison.attribution import attribute
from simsys.comparison.breakdown import break_down
from simsys.comparison.compare import Settings, compare
from simsys.comparison.conclusion import conclude
from simsys.config.experiment import SimulationConfig


def study(
    configs: Sequence[SimulationConfig],
    settings: Settings,
    *,
    attribution: bool = False,
    profile: bool = False,
    told: Callable[[str], object] = lambda _: None,
) -> dict[str, Any]:
    """Compare the levels of detail in some scenarios.

    Args:
        configs: The scenarios.
        settings: How.
        attribution: Whether to tell what each abstraction is worth.
        profile: Whether to tell where the time goes.
        told: Called with what is about to be done.

    Returns:
        The comparison, ready for JSON.

    Raises:
        SimsysError: If one cannot be compared.
    """
    data: dict[str, Any] = {"machine": machine(), "scenarios": []}
    for config in configs:
        told(f"{config.name}: both levels")
        data["scenarios"].append(compare(config, settings).as_dict())
    if attribution:
        data["attribution"] = []
        for config in configs:
            if config.jobs is None:
                told(f"{config.name}: attribution")
                data["attribution"].append(attribute(config, settings))
    if profile:
        data["breakdown"] = []
        for config in configs:
            told(f"{config.name}: profile")
            data["breakdown"].append(break_down(config, settings))
    return {**data, "conclusion": conclude(data)}


def machine() -> dict[str, Any]:
    """What the times were measured on."""
    return {
        "cpus": os.cpu_count(),
        "architecture": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "simpy": simpy.__version__,
        "simsys": simsys.__version__,
    }
