"""From an experiment file to validated scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simsys.config.experiment import SimulationConfig
from simsys.config.loader import read_sources, validate_all


def read_scenarios(path: Path, assignments: Sequence[str] = (), names: Sequence[str] = ()) -> list[SimulationConfig]:
    """Return the validated scenarios of a file; arguments and errors as `read_sources`.

    Raises:
        ConfigError: With the problems of all of them.
    """
    scenarios = validate_all(read_sources(path, assignments, names), SimulationConfig)
    return [scenario.located_in(path.resolve().parent) for scenario in scenarios]
