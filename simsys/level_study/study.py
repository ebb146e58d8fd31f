"""Scenarios compared, one after another, and everything that is said of them: data for tables, plot and page."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Collection, Sequence
from typing import Any

import simpy

from simsys import interrupts
from simsys.config.experiment import SimulationConfig
from simsys.errors import InfeasibleError, UsageError
from simsys.level_study.attribution import attribute
from simsys.level_study.breakdown import break_down
from simsys.level_study.compare import Settings, compare
from simsys.level_study.conclusion import conclude
from simsys.version import __version__

Told = Callable[[str], object]
"""Is called with what is about to be done."""


def study(
    configs: Sequence[SimulationConfig],
    settings: Settings,
    *,
    attribution: Collection[str] = (),
    profile: Collection[str] = (),
    told: Told = lambda _: None,
) -> dict[str, Any]:
    """Compare the levels of detail in some scenarios.

    Args:
        configs: The scenarios.
        settings: Settings of the comparison.
        attribution: Names of scenarios with a measurement of each abstraction; not for several jobs.
        profile: Names of scenarios with a profile of CPU time.
        told: Called with a text before each measurement.

    Returns:
        The comparison, ready for JSON; scenarios that cannot be compared are ``refused``, with the reason. If it is
        ``interrupted``, it is what there was until then.

    Raises:
        SimsysError: If one cannot be carried out.
    """
    data: dict[str, Any] = {"machine": machine(), "scenarios": [], "refused": [], "interrupted": False}
    try:
        with interrupts.raised():
            compared = [config for config in configs if _compared(config, settings, data, told)]
            if attribution:
                one = [config for config in compared if config.name in attribution and config.jobs is None]
                _look(data, "attribution", attribute, one, settings, told)
            if profile:
                chosen = [config for config in compared if config.name in profile]
                _look(data, "breakdown", break_down, chosen, settings, told)
    except KeyboardInterrupt:  # what took minutes so far is worth having
        data["interrupted"] = True
    return {**data, "conclusion": conclude(data)}


def _compared(config: SimulationConfig, settings: Settings, data: dict[str, Any], told: Told) -> bool:
    """Add a row, or the reason why there is none; say which it was."""
    told(f"{config.name}: both levels")
    try:
        row = compare(config, settings).as_dict()
    except (UsageError, InfeasibleError) as error:
        data["refused"].append({"name": config.name, "error": str(error), "exit_code": error.exit_code})
        return False
    data["scenarios"].append(row)
    return True


def _look(
    data: dict[str, Any],
    what: str,
    look: Callable[[SimulationConfig, Settings], dict[str, Any]],
    configs: Sequence[SimulationConfig],
    settings: Settings,
    told: Told,
) -> None:
    """Add what a closer look at some scenarios shows."""
    data[what] = []
    for config in configs:
        told(f"{config.name}: {what}")
        data[what].append(look(config, settings))


def machine() -> dict[str, Any]:
    """What the times were measured on."""
    return {
        "cpus": os.cpu_count(),
        "architecture": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "simpy": simpy.__version__,
        "simsys": __version__,
    }
