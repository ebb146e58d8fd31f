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
from simsys.errors import InfeasibleError, UsageError


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
        The comparison, ready for JSON; scenarios that cannot be compared are ``refused``, with the reason.

    Raises:
        SimsysError: If one cannot be carried out.
    """
    data: dict[str, Any] = {"machine": machine(), "scenarios": [], "refused": []}
    compared: list[SimulationConfig] = []
    for config in configs:
        told(f"{config.name}: both levels")
        try:
            found = compare(config, settings)
        except (UsageError, InfeasibleError) as error:
            data["refused"].append({"name": config.name, "error": str(error), "exit_code": error.exit_code})
            continue
        data["scenarios"].append(found.as_dict())
        if found.whole is None:  # what is compared in part is the like of another, but longer
            compared.append(config)
    if attribution:
        data["attribution"] = [_told(attribute, each, settings, told) for each in compared if each.jobs is None]
    if profile:
        data["breakdown"] = [_told(break_down, each, settings, told) for each in compared]
    return {**data, "conclusion": conclude(data)}


def _told(
    look: Callable[[SimulationConfig, Settings], dict[str, Any]],
    config: SimulationConfig,
    settings: Settings,
    told: Callable[[str], object],
) -> dict[str, Any]:
    told(f"{config.name}: {'attribution' if look is attribute else 'profile'}")
    return look(config, settings)


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
