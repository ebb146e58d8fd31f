"""From an experiment file to validated scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simsys.config.experiment import SimulationConfig
from simsys.config.loader import ScenarioSource, override, read_document, scenario_sources, validate_all
from simsys.errors import UnknownNameError, UsageError


def read_sources(path: Path, assignments: Sequence[str] = ()) -> list[ScenarioSource]:
    """The scenarios of a file before validation, with ``--set`` assignments applied to each."""
    return [override(source, assignments) for source in scenario_sources(read_document(path))]


def read_scenarios(path: Path, assignments: Sequence[str] = ()) -> list[SimulationConfig]:
    """The validated scenarios of a file.

    Raises:
        ConfigError: With the problems of all scenarios.
    """
    scenarios = validate_all(read_sources(path, assignments), SimulationConfig)
    return [scenario.located_in(path.resolve().parent) for scenario in scenarios]


def select(scenarios: Sequence[SimulationConfig], name: str | None) -> SimulationConfig:
    """The scenario called `name`, or the only one.

    Raises:
        UnknownNameError: If there is none of that name.
        UsageError: If there are several and no name is given.
    """
    if name is None:
        if len(scenarios) == 1:
            return scenarios[0]
        names = ", ".join(scenario.name for scenario in scenarios)
        raise UsageError(f"the file holds {len(scenarios)} scenarios; name one of: {names}")
    for scenario in scenarios:
        if scenario.name == name:
            return scenario
    raise UnknownNameError("scenario", name, [scenario.name for scenario in scenarios])
