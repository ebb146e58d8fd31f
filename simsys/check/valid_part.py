"""Extracts the valid part of a scenario that does not fit the schema, so that it can still be checked.

Invalid settings are left out, or replaced if they are required, so that one pass finds the problems of all other
settings.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from simsys.build.rules.model import SIZES
from simsys.config.document import KeyPath
from simsys.config.experiment import SimulationConfig
from simsys.config.places import key_path
from simsys.config.validation import validate
from simsys.errors import ConfigError, Problem

STAND_INS: Mapping[str, Any] = {
    "name": "experiment",
    "hardware": {"gpu": "H100-SXM"},
    "model": {"name": "GPT2-Small"},
    "training": {"batch_size_per_gpu": 1},
    "serving": {},
    "workload": {"arrivals": {"kind": "all_at_once"}, "prompt_tokens": 1, "output_tokens": 1, "num_requests": 1},
}
"""Replacements of sections that require the invalid settings."""

DECIDED_BY = {
    "network": ("hardware", "network", "training"),
    "parallelism": ("hardware", "model", "parallelism", "training"),
    "serving": ("hardware", "model"),
    "training": ("hardware", "model"),
    "workload": ("model", "simulation", "workload"),
}
"""The sections that may cause a problem of a section."""

ROUNDS = 4


def salvage(data: Mapping[str, Any]) -> tuple[SimulationConfig, frozenset[str]] | None:
    """Make a valid scenario from the valid settings of `data`.

    Returns:
        The scenario, and the sections with settings left out; None if too little is valid.
    """
    rest = copy.deepcopy(dict(data))
    touched: set[str] = set()
    for _ in range(ROUNDS):
        try:
            return validate(rest, SimulationConfig), frozenset(touched)
        except ConfigError as error:
            paths = [key_path(problem.path) for problem in error.problems]
        if not all(paths):
            return None  # the scenario as a whole is invalid, so its parts cannot be checked
        for path in paths:
            touched.add(str(path[0]))
            _leave_out(rest, path)
    return None


def still_true(problems: list[Problem], touched: frozenset[str]) -> list[Problem]:
    """The problems that were not caused by the settings left out."""

    def certain(problem: Problem) -> bool:
        section = str(key_path(problem.path)[0]) if problem.path else ""
        return not touched.intersection(DECIDED_BY.get(section, ()))

    return [problem for problem in problems if certain(problem)]


def _leave_out(data: dict[str, Any], path: KeyPath) -> None:
    """Remove a setting; if it is missing, or an item of a list, replace the section that needs it."""
    inner: Any = data
    for part in path[:-1]:
        inner = inner.get(part) if isinstance(inner, dict) else None
    needed = path[0] == "model" and path[-1] in SIZES  # without it the other sizes do not determine the model
    if len(path) > 1 and isinstance(inner, dict) and path[-1] in inner and not needed:
        del inner[path[-1]]
        return
    section = str(path[0])
    data.pop(section, None)
    if section in STAND_INS:
        data[section] = copy.deepcopy(STAND_INS[section])
