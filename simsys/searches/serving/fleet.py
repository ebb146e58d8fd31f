"""The fixed part of a search among deployments: hardware without a size, model, engine and requests."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from simsys.build.cluster import Cluster
from simsys.build.job import cluster_of
from simsys.build.model import build_model
from simsys.build.workload import build_requests
from simsys.config.arrivals import ClosedLoopArrivals
from simsys.config.experiment import SimulationConfig
from simsys.config.hardware import load_node
from simsys.config.workload import WorkloadConfig
from simsys.model.model import Model
from simsys.serving.requests import RequestTable

DEFAULT_NODE_GPUS = 8
"""GPUs of a node if neither a profile nor the scenario says it."""
STEADY = ("poisson", "gamma", "constant", "closed_loop")
"""Arrivals of which any part is like the whole."""
SHORT_S, SHORT_ANSWERS, FEWEST_REQUESTS = 30.0, 4.0, 200
"""Length of a short run: seconds of arrivals, or a multiple of the time of an answer if that is longer, and the fewest
requests."""
SIZES = ("num_nodes", "gpus_per_node", "nodes")


@dataclass(frozen=True)
class Fleet:
    """Hardware of one kind, with as many GPUs as a deployment needs, or as the scenario writes.

    Args:
        config: The scenario without a search.
        fixed: Whether the scenario writes the size of the cluster.
    """

    config: SimulationConfig
    fixed: bool
    _clusters: dict[tuple[int, int], Cluster] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def node_gpus(self) -> int:
        """GPUs of a whole node."""
        hardware = self.config.hardware
        if hardware.gpus_per_node is not None:
            return hardware.gpus_per_node
        if hardware.nodes is not None:
            return self.written.gpus_per_node
        if hardware.profile is None:
            return 1 if self.fixed else DEFAULT_NODE_GPUS
        return load_node(hardware.profile, self.config.profile_folders).gpus_per_node

    @cached_property
    def written(self) -> Cluster:
        """The cluster as it is written."""
        return cluster_of(self.config)

    @cached_property
    def model(self) -> Model:
        """The model."""
        return build_model(self.config.model, self.config.folder)

    def size(self, gpus: int, group: int) -> dict[str, int] | None:
        """Settings of a cluster of some GPUs, of which each group lies on one node or fills whole nodes.

        Args:
            gpus: GPUs of the cluster, a multiple of the group.
            group: GPUs of a replica.

        Returns:
            The settings by dotted path, none for a fixed cluster; None if there is no such cluster.
        """
        if self.fixed:
            return {} if gpus == self.written.num_gpus else None
        node = self.node_gpus
        each = next((each for each in range(min(node, gpus), 0, -1) if not gpus % each and not each % group), None)
        if each is None and group % node == 0:
            each = node
        if each is None:
            return None
        return {"hardware.gpus_per_node": each, "hardware.num_nodes": gpus // each}

    def cluster(self, config: SimulationConfig) -> Cluster:
        """The cluster of a scenario that differs from the written one in its size."""
        key = (config.hardware.gpus_per_node or 0, config.hardware.num_nodes)
        found = self._clusters.get(key)
        if found is None:
            found = self._clusters[key] = cluster_of(config)
        return found

    @cached_property
    def price(self) -> float:
        """Price of a GPU (USD per hour); 0 if it is unknown."""
        return self.written.usd_per_gpu_hour

    # ---- requests

    @cached_property
    def short(self) -> dict[str, Any]:
        """Settings of a short run at medium detail."""
        settings: dict[str, Any] = {"simulation.lod": "medium"}
        workload = self.workload
        most = _short_requests(self.config, workload)
        if most is not None and (workload.num_requests is None or most < workload.num_requests):
            settings["workload.num_requests"] = most
        return settings

    @property
    def workload(self) -> WorkloadConfig:
        """The workload of the scenario."""
        assert self.config.workload is not None
        return self.config.workload

    @cached_property
    def requests(self) -> RequestTable:
        """The requests of a short run."""
        workload = self.config.timed_workload
        assert workload is not None
        most = self.short.get("workload.num_requests")
        if most is not None:
            workload = workload.model_copy(update={"num_requests": most})
        return build_requests(workload, self.config.simulation.seed, self.config.folder)


def _short_requests(config: SimulationConfig, workload: WorkloadConfig) -> int | None:
    """Requests of a short run; None for all, where a part is not like the whole."""
    arrivals, slo = workload.arrivals, config.slo
    if arrivals.kind not in STEADY or workload.trace is not None:
        return None
    if isinstance(arrivals, ClosedLoopArrivals):
        return max(FEWEST_REQUESTS, int(SHORT_ANSWERS * arrivals.concurrency))
    answer_s = 0.0
    if slo is not None:
        few = workload.model_copy(update={"num_requests": FEWEST_REQUESTS})
        tokens = build_requests(few, config.simulation.seed, config.folder).mean_output_tokens
        answer_s = slo.e2el or (slo.ttft or 0.0) + (slo.tpot or 0.0) * tokens
    return max(FEWEST_REQUESTS, int(float(getattr(arrivals, "rate", 0.0)) * max(SHORT_S, SHORT_ANSWERS * answer_s)))
