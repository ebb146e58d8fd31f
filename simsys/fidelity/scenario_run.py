"""A run of a scenario, given as the content of an experiment file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from simsys.build.cluster import Cluster, build_cluster
from simsys.build.job import Job, assemble
from simsys.build.rules.findings import Findings, unlocated
from simsys.build.serving import ServingJob
from simsys.check.effort import cpu_parts
from simsys.config.experiment import SimulationConfig
from simsys.errors import ConfigError, InfeasibleError, SimsysError, UsageError
from simsys.fidelity.case import Figures, Unsupported
from simsys.simulation import simulate, simulate_job
from simsys.sums import ordered_sum


@dataclass(frozen=True)
class ScenarioRun:
    """A run as with `simsys run` at medium detail; equal scenarios are equal runs.

    Args:
        scenario: The experiment as JSON.
        memory_limit: Whether it has to fit into the memory of the GPUs; measured runs did fit.
    """

    scenario: str
    memory_limit: bool = True

    @classmethod
    def of(cls, scenario: Mapping[str, Any], *, memory_limit: bool = True) -> ScenarioRun:
        """Return the run of an experiment given as nested mappings."""
        return cls(json.dumps(scenario, sort_keys=True), memory_limit)

    def differences(self, other: ScenarioRun) -> dict[str, tuple[Any, Any]]:
        """Return the settings that differ from another run: by name, the value here and the value there.

        Example:
            >>> ScenarioRun.of({"a": {"b": 1, "c": 2}}).differences(ScenarioRun.of({"a": {"b": 3, "c": 2}}))
            {'b': (1, 3)}
        """
        here, there = _settings(json.loads(self.scenario)), _settings(json.loads(other.scenario))
        names = sorted(here.keys() | there.keys())
        return {path[-1]: pair for path in names if (pair := (here.get(path), there.get(path)))[0] != pair[1]}

    def job(self) -> Job:
        """Build the scenario.

        Raises:
            ValidationError: If a setting has no valid value.
            SimsysError: If it breaks a rule.
        """
        config, found = _config(self.scenario), Findings(unlocated({}))
        made = assemble(config, found, make_cluster=self._cluster)
        found.require()
        assert made is not None  # otherwise a problem was recorded
        return made[0]

    def _cluster(self, config: SimulationConfig) -> Cluster:
        cluster = build_cluster(config.hardware, config.network, config.folder)
        return cluster if self.memory_limit else cluster.without_memory_limit()

    def expected_cpu_s(self) -> float:
        """Return the approximate processor time (`simsys.check.effort`); 0 if it cannot be built, or does not fit."""
        try:
            job = self.job()
            if isinstance(job, ServingJob) and not all(pool.num_blocks for pool in job.pools):
                return 0.0
            return ordered_sum(cpu_parts(job).values())
        except (ValidationError, SimsysError):
            return 0.0

    def figures(self) -> Figures:
        """Simulate it; the names are those of `RunResult.metrics`.

        Raises:
            Unsupported: The model does not fit, or a part of the scenario is not known.
        """
        try:
            result = simulate(_config(self.scenario)) if self.memory_limit else simulate_job(self.job())
            metrics = result.metrics
        except InfeasibleError as error:
            raise Unsupported(f"does not fit: {error}") from None
        except ValidationError as error:
            raise Unsupported("; ".join(each["msg"] for each in error.errors())) from None
        except (ConfigError, UsageError) as error:
            raise Unsupported(str(error)) from None
        return {name: float(value) for name, value in metrics.items() if isinstance(value, int | float)}


def _settings(data: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Return nested settings by path."""
    if not isinstance(data, dict):
        return {path: data}
    return {place: value for key in data for place, value in _settings(data[key], (*path, key)).items()}


@lru_cache(maxsize=4096)
def _config(scenario: str) -> SimulationConfig:
    """The experiment, which is read once: a fit simulates it again and again with other profiles."""
    return SimulationConfig.model_validate(json.loads(scenario))
