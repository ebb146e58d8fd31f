"""Whether the GPUs make the replicas that disaggregation and autoscaling ask for."""

from __future__ import annotations

from simsys.build.cluster import Cluster
from simsys.build.serving_replicas import replicas_problem
from simsys.check.findings import Findings
from simsys.config.experiment import SimulationConfig


def check_replicas(config: SimulationConfig, cluster: Cluster, found: Findings) -> None:
    """Book what is wrong, in a scenario whose degrees and modules are right."""
    if config.serving is None:
        return
    given = config.parallelism
    problem = replicas_problem(config, given.dp_degree or cluster.num_gpus // given.shards)
    if problem is not None:
        found.error(*problem)
