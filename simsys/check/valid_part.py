"""What can still be checked of a scenario whose settings do not fit the schema.

The settings that are wrong are left out, or replaced where something must stand, so that the problems of all others
are found in the same pass.
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
"""What replaces a section that cannot do without the settings that are wrong."""

DECIDED_BY = {
    "network": ("hardware", "network", "training"),
    "parallelism": ("hardware", "model", "parallelism", "training"),
    "serving": ("hardware", "model"),
    "training": ("hardware", "model"),
    "workload": ("model", "simulation", "workload"),
}
"""Which other sections a section's problems may come from."""

ROUNDS = 4


def salvage(data: Mapping[str, Any]) -> tuple[SimulationConfig, frozenset[str]] | None:
    """A valid scenario made of what is right in `data`.

    Returns:
        The scenario, and the sections of which something was left out; None if too little is right.
    """
    rest = copy.deepcopy(dict(data))
    touched: set[str] = set()
    for _ in range(ROUNDS):
        try:
            return validate(rest, SimulationConfig), frozenset(touched)
        except ConfigError as error:
            paths = [key_path(problem.path) for problem in error.problems]
        if not all(paths):
            return None  # the scenario as a whole is wrong, so nothing can be told from its parts
        for path in paths:
            touched.add(str(path[0]))
            _leave_out(rest, path)
    return None


def still_true(problems: list[Problem], touched: frozenset[str]) -> list[Problem]:
    """The problems that do not come from what was left out."""

    def certain(problem: Problem) -> bool:
        section = str(key_path(problem.path)[0]) if problem.path else ""
        return not touched.intersection(DECIDED_BY.get(section, ()))

    return [problem for problem in problems if certain(problem)]


def _leave_out(data: dict[str, Any], path: KeyPath) -> None:
    """Remove a setting; if it is missing, or one of a list, the section that needs it is replaced."""
    inner: Any = data
    for part in path[:-1]:
        inner = inner.get(part) if isinstance(inner, dict) else None
    needed = path[0] == "model" and path[-1] in SIZES  # without it the model cannot be told from its other sizes
    if len(path) > 1 and isinstance(inner, dict) and path[-1] in inner and not needed:
        del inner[path[-1]]
        return
    section = str(path[0])
    data.pop(section, None)
    if section in STAND_INS:
        data[section] = copy.deepcopy(STAND_INS[section])
