"""From an experiment file to validated scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simsys.config.experiment import SimulationConfig
from simsys.config.loader import ScenarioSource, override, read_document, scenario_sources, validate_all
from simsys.errors import UnknownNameError, UsageError


def read_sources(path: Path, assignments: Sequence[str] = (), names: Sequence[str] = ()) -> list[ScenarioSource]:
    """The scenarios of a file before validation, with ``--set`` assignments applied to each.

    Args:
        path: The experiment file.
        assignments: Settings from the command line.
        names: Which scenarios; all if empty.

    Raises:
        UnknownNameError: If there is no scenario of such a name.
    """
    sources = scenario_sources(read_document(path))
    known = [source.name for source in sources]
    for name in names:
        if name not in known:
            raise UnknownNameError("scenario", name, known)
    return [override(source, assignments) for source in sources if not names or source.name in names]


def read_scenarios(path: Path, assignments: Sequence[str] = (), names: Sequence[str] = ()) -> list[SimulationConfig]:
    """The validated scenarios of a file; arguments and errors as `read_sources`.

    Raises:
        ConfigError: With the problems of all of them.
    """
    scenarios = validate_all(read_sources(path, assignments, names), SimulationConfig)
    return [scenario.located_in(path.resolve().parent) for scenario in scenarios]


def only(scenarios: Sequence[SimulationConfig]) -> SimulationConfig:
    """The only scenario.

    Raises:
        UsageError: If there are several.
    """
    if len(scenarios) == 1:
        return scenarios[0]
    names = ", ".join(scenario.name for scenario in scenarios)
    raise UsageError(f"the file holds {len(scenarios)} scenarios; name one of: {names}")
