"""Checks that the counts of a scenario are not too large to build, before it is built."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from simsys.build.rules.findings import Findings
from simsys.build.sizes import size_problem
from simsys.config.document import KeyPath
from simsys.config.experiment import SimulationConfig
from simsys.errors import SimsysError
from simsys.model.fields import MAX_LAYERS

MAX_COUNT = 1_000_000_000
MAX_COUNTS: Mapping[str, int] = {
    "num_layers": MAX_LAYERS,
    "num_iterations": 1_000_000,
    "gradient_accumulation_steps": 100_000,
}
"""Limits far above real hardware; a typing error then gives a message instead of exhausting the memory."""

SECTIONS = ("hardware", "model", "parallelism", "training", "serving")


def sizes_can_be_built(config: SimulationConfig, found: Findings) -> bool:
    """Record every count that is too large; True if there is none."""
    before = len(found.errors)
    for section in SECTIONS:
        part = getattr(config, section)
        for path, count in _counts(part.model_dump() if part is not None else {}, (section,)):
            limit = MAX_COUNTS.get(str(path[-1]), MAX_COUNT)
            if count > limit:
                found.error(path, f"must be at most {limit}, not {_shown(count)}")
    if len(found.errors) > before:
        return False
    problem = None
    with suppress(SimsysError):  # an unknown or invalid profile is reported where profiles are checked
        problem = size_problem(config.hardware, config.network, config.profile_folders)
    if problem is not None:
        found.error(*problem)
    return len(found.errors) == before


def _counts(values: Any, path: KeyPath) -> Iterator[tuple[KeyPath, int]]:
    if isinstance(values, dict):
        for key, value in values.items():
            if key not in ("options", "layers", "gpu", "profile", "fabric"):  # these have their own schemas
                yield from _counts(value, (*path, key))
    elif isinstance(values, list):
        for index, value in enumerate(values):
            yield from _counts(value, (*path, index))
    elif isinstance(values, int) and not isinstance(values, bool):
        yield path, values


def _shown(count: int) -> str:
    digits = str(count)
    return digits if len(digits) <= 20 else f"a number of {len(digits)} digits"
