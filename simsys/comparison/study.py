"""Scenarios compared, one after another, and everything that is said of them: data for tables, plot and page."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Collection, Sequence
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
    attribution: Collection[str] = (),
    profile: Collection[str] = (),
    told: Callable[[str], object] = lambda _: None,
) -> dict[str, Any]:
    """Compare the levels of detail in some scenarios.

    Args:
        configs: The scenarios.
        settings: How.
        attribution: Names of scenarios of which to tell what each abstraction is worth; not of several jobs.
        profile: Names of scenarios of which to tell where the time goes.
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
        compared.append(config)
    if attribution:
        one = [each for each in compared if each.name in attribution and each.jobs is None]
        data["attribution"] = [_told(attribute, each, settings, told) for each in one]
    if profile:
        chosen = [each for each in compared if each.name in profile]
        data["breakdown"] = [_told(break_down, each, settings, told) for each in chosen]
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
