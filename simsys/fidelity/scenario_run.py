"""A run of a scenario, written as an experiment file has it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simsys.config.experiment import SimulationConfig
from simsys.errors import ConfigError, InfeasibleError, UnknownNameError
from simsys.fidelity.case import Figures, Unsupported
from simsys.simulation import simulate


@dataclass(frozen=True)
class ScenarioRun:
    """What `simsys run` does at medium detail; equal scenarios are equal runs.

    Args:
        scenario: The experiment as JSON.
    """

    scenario: str

    @classmethod
    def of(cls, scenario: Mapping[str, Any]) -> ScenarioRun:
        """A run of an experiment given as nested mappings."""
        return cls(json.dumps(scenario, sort_keys=True))

    def figures(self) -> Figures:
        """Simulate it; the metrics are those of `RunResult.metrics`.

        Raises:
            Unsupported: If the model does not fit, or something of it is not known.
        """
        try:
            config = SimulationConfig.model_validate(json.loads(self.scenario))
            metrics = simulate(config).metrics
        except InfeasibleError as error:
            raise Unsupported(f"does not fit: {error}") from None
        except (ConfigError, UnknownNameError) as error:
            raise Unsupported(str(error)) from None
        return {name: float(value) for name, value in metrics.items() if isinstance(value, int | float)}
