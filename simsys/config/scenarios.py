"""From an experiment file to validated scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simsys.config.experiment import SimulationConfig
from simsys.config.loader import read_sources, validate_all
from simsys.errors import UsageError


def read_scenarios(path: Path, assignments: Sequence[str] = (), names: Sequence[str] = ()) -> list[SimulationConfig]:
    """Return the validated scenarios of a file; arguments and errors as `read_sources`.

    Raises:
        ConfigError: With the problems of all of them.
    """
    scenarios = validate_all(read_sources(path, assignments, names), SimulationConfig)
    return [scenario.located_in(path.resolve().parent) for scenario in scenarios]


def read_scenario(path: Path, assignments: Sequence[str] = (), name: str | None = None) -> SimulationConfig:
    """Return one validated scenario of a file.

    Args:
        path: The file.
        assignments: Settings from the command line.
        name: Which scenario; may be left out if there is only one.

    Raises:
        ConfigError: With the problems of the scenario.
        UsageError: If the file has several scenarios and none is named.
    """
    found = read_scenarios(path, assignments, () if name is None else (name,))
    if len(found) > 1:
        names = ", ".join(each.name for each in found)
        raise UsageError(f"the file holds {len(found)} scenarios; name one of: {names}")
    return found[0]
