"""One probe for each job of a shared cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from simsys.config.experiment import SimulationConfig
from simsys.probes import Probe

Observer = TypeVar("Observer", bound=Probe)


class PerJob(Probe, Generic[Observer]):
    """Gives each job of a scenario a probe of its own; without jobs, the scenario has one.

    Args:
        config: The scenario.
        make: Makes a probe for a scenario or a job, by its configuration and the name of the job (empty without jobs).
    """

    counts_only = True

    def __init__(self, config: SimulationConfig, make: Callable[[SimulationConfig, str], Observer]) -> None:
        self._make = make
        self._configs = {job.name: config.job(job) for job in config.jobs or ()} or {"": config}
        self._made: dict[str, Observer] = {}
        if config.jobs is None:
            self.of_job("")

    @property
    def probe(self) -> Probe:
        """The observer of the run."""
        return self._made.get("", self)

    @property
    def parts(self) -> dict[str, Observer]:
        """The probes in the order of the jobs, by name."""
        return {name: self._made[name] for name in self._configs if name in self._made}

    def of_job(self, name: str) -> Observer:
        """A new probe, also if the job is simulated again."""
        made = self._made[name] = self._make(self._configs[name], name)
        return made
