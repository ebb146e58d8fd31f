"""Where a simulation spends its time, package by package: what holds it up, and how that shifts between levels."""

from __future__ import annotations

import cProfile
import gc
import pstats
from collections import defaultdict
from pathlib import Path
from typing import Any

import simpy

from simsys.config.experiment import SimulationConfig
from simsys.level_study.amounts import amount, unit
from simsys.level_study.attribution import part_of
from simsys.level_study.compare import Settings
from simsys.level_study.variants import HIGH, MEDIUM, as_variant
from simsys.sums import ordered_sum

SIMPY, OTHER = "SimPy", "other"
SECONDS = 1.0
"""CPU time of what is profiled at high, about, without the profiler."""
Function = tuple[str, int, str]
"""File, line and name, as in the profiler; built-in functions have no file."""

_ROOT, _SIMPY = Path(__file__).parents[1], Path(simpy.__file__).parent


def break_down(config: SimulationConfig, settings: Settings, seconds: float = SECONDS) -> dict[str, Any]:
    """Profile a scenario at medium, and a part of it at high.

    Args:
        config: The scenario.
        settings: How functions are called.
        seconds: CPU time of the part at high.

    Returns:
        For each level how much it did, and the share of the time of every package, the largest first, ready for JSON.
    """
    parts = {HIGH: part_of(config, settings, seconds), MEDIUM: config}
    levels = {
        level: {"amount": amount(part), "shares": settings.call(profile, None, part, level)}
        for level, part in parts.items()
    }
    return {"name": config.name, "unit": unit(config), "levels": levels}


def profile(config: SimulationConfig, variant: str) -> dict[str, float]:
    """The shares of the time that packages take, the largest first.

    Args:
        config: The scenario.
        variant: How it is simulated; see `as_variant`.
    """
    scenario = as_variant(config, variant)
    as_variant(config, MEDIUM).simulate()  # what is imported on the way is not looked at
    gc.collect()
    profiler = cProfile.Profile()
    profiler.enable()
    scenario.simulate()
    profiler.disable()
    return shares(pstats.Stats(profiler))


def shares(stats: pstats.Stats) -> dict[str, float]:
    """The shares of the time by package; that of built-in functions counts for those that call them."""
    seconds: dict[str, float] = defaultdict(float)
    functions: dict[Function, Any] = stats.stats  # type: ignore[attr-defined]
    for function, (_, _, own_s, _, callers) in functions.items():
        if function[0] != "~" or not callers:
            seconds[group(function[0])] += own_s
            continue
        for caller, (_, _, each_s, _) in callers.items():
            seconds[group(caller[0])] += each_s
    total_s = ordered_sum(seconds.values())
    return {name: each_s / total_s for name, each_s in sorted(seconds.items(), key=lambda each: -each[1]) if each_s}


def group(file: str) -> str:
    """Where a file belongs: a package of simsys, the modules, SimPy with simsys' own event loop, or something else.

    Example:
        >>> group("/usr/lib/python3/heapq.py")
        'other'
    """
    path = Path(file)
    if path.is_relative_to(_SIMPY) or path == _ROOT / "platform" / "environment.py":
        return SIMPY
    if path.is_relative_to(_ROOT):
        inside = path.relative_to(_ROOT).parts
        return f"simsys.{inside[0].removesuffix('.py')}"
    return "frameworks" if path.is_relative_to(_ROOT.parent / "frameworks") else OTHER
