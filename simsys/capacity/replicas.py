"""The fewest replicas of a serving configuration that meet its SLO in the steady state, by bisection."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simsys.build.job import cluster_of
from simsys.capacity.judgement import Demands, Judgement, judged, nothing, slo_of
from simsys.capacity.rate import at_rate
from simsys.capacity.steady import MOST_REQUESTS
from simsys.config.experiment import SimulationConfig
from simsys.errors import UsageError

MOST_REPLICAS = 1024


@dataclass(frozen=True)
class FewestReplicas:
    """The fewest replicas that meet an SLO.

    Args:
        name: Name of the scenario.
        replicas: The number; None if it is above the limit.
        num_gpus: GPUs of this number of replicas; 0 if it is above the limit.
        metrics: Metrics of the steady state with them.
        tried: The judgement of each simulated number, in order.
    """

    name: str
    replicas: int | None
    num_gpus: int
    metrics: Mapping[str, Any]
    tried: Sequence[tuple[int, Judgement]]

    @property
    def text(self) -> str:
        """The answer in a line."""
        if self.replicas is None:
            most, last = self.tried[-1]
            return f"more than {most} replicas are needed: {'; '.join(last.missed)}"
        return f"fewest replicas: {self.replicas} ({self.num_gpus} GPUs), steady; {len(self.tried)} simulations"


def fewest(meets: Callable[[int], bool], most: int, guess: Callable[[], int] = lambda: 2) -> int | None:
    """The least number from 1 on that meets a demand, if all larger ones meet it too.

    Args:
        meets: Whether a number does.
        most: The largest number.
        guess: A guess of the answer, asked for after 1 did not meet the demand.

    Returns:
        The number; None if the largest one does not meet the demand.
    """
    low, high, step = 0, 1, 1
    while not meets(high):
        if high >= most:
            return None
        low, step = high, 1 if low == 0 else 2 * step
        high = min(max(low + 1, guess()) if low == 1 else low + step, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if meets(middle) else (middle, high)
    return high


def fewest_replicas(
    config: SimulationConfig,
    requests_per_s: float | None = None,
    *,
    also: Demands = nothing,
    most: int = MOST_REPLICAS,
    most_requests: int = MOST_REQUESTS,
) -> FewestReplicas:
    """Find the fewest replicas of a scenario that meet its SLO, by bisection; all numbers serve the same requests.

    Args:
        config: The scenario, with `slo`. Each replica has its tensor and pipeline parallelism, and the cluster has as
            many nodes as the replicas need.
        requests_per_s: The rate of the arrivals; by default that of the scenario.
        also: Further demands.
        most: Largest number of replicas.
        most_requests: Largest number of requests of a simulation.

    Raises:
        UsageError: If there is no SLO, or replicas cannot be added.
        ConfigError: If the scenario breaks a rule.
    """
    slo_of(config)
    config = config if requests_per_s is None else at_rate(config, requests_per_s)
    tried: dict[int, Judgement] = {}

    def meets(count: int) -> bool:
        tried[count] = judged(with_replicas(config, count), also=also, most_requests=most_requests)
        return tried[count].meets

    def guess() -> int:
        """From the share of the requests that one replica serves."""
        grown = tried[1].state.queue_growth
        served = 0.5 if grown is None else 1.0 - grown.share
        return math.ceil(1.0 / max(served, 1.0 / most))

    found = fewest(meets, most, guess)
    metrics = {} if found is None else tried[found].state.metrics
    gpus = 0 if found is None else found * config.parallelism.shards
    return FewestReplicas(config.name, found, gpus, metrics, list(tried.items()))


def with_replicas(config: SimulationConfig, count: int) -> SimulationConfig:
    """A scenario with another number of replicas, on as many nodes as they need.

    All GPUs are used: nodes have fewer GPUs than in the scenario if replicas do not fill them.

    Raises:
        UsageError: If the scenario has pools of replicas or several kinds of nodes.
    """
    if config.serving is None or config.serving.disaggregated is not None or config.serving.autoscaling is not None:
        raise UsageError("replicas are counted of serving without disaggregated pools and without autoscaling")
    if config.hardware.nodes is not None:
        raise UsageError("replicas are added on equal nodes; write hardware.profile in place of hardware.nodes")
    each, shards = cluster_of(config).gpus_per_node, config.parallelism.shards
    total = count * shards
    if shards <= each:
        each = next(size for size in range(each // shards * shards, 0, -shards) if total % size == 0)
    nodes = -(-total // each)
    hardware = config.hardware.model_copy(update={"num_nodes": nodes, "gpus_per_node": each})
    parallelism = config.parallelism.model_copy(update={"dp_degree": count})
    return config.model_copy(update={"hardware": hardware, "parallelism": parallelism})
