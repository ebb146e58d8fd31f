"""The clusters of checked scenarios. Trials of suggestions mostly reuse the cluster of the scenario."""

from __future__ import annotations

from simsys.build.cluster import Cluster
from simsys.build.job import cluster_of
from simsys.config.experiment import SimulationConfig


class Clusters:
    """Builds the cluster of a scenario, if it differs from the cluster of the previous scenario."""

    def __init__(self) -> None:
        self._written = ""
        self._built: Cluster | None = None

    def of(self, config: SimulationConfig) -> Cluster:
        """The cluster of a scenario; errors as `cluster_of`."""
        sections = (config.hardware, config.network)
        written = "\n".join([str(config.folder), *(each.model_dump_json(exclude_unset=True) for each in sections)])
        if self._built is None or written != self._written:
            self._built = cluster_of(config)
            self._written = written
        return self._built
