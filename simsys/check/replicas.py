"""Whether the GPUs make the replicas that disaggregation and autoscaling ask for."""

from __future__ import annotations

from simsys.build.cluster import Cluster
from simsys.build.serving_replicas import DISAGGREGATED, replicas_problem
from simsys.check.findings import Findings, Suggestion
from simsys.check.parallelism import split_problem
from simsys.config.experiment import SimulationConfig
from simsys.model.model import Model


def check_replicas(config: SimulationConfig, cluster: Cluster, model: Model | None, found: Findings) -> None:
    """Book what is wrong, in a scenario whose degrees and modules are right."""
    if config.serving is None:
        return
    given = config.parallelism
    problem = replicas_problem(config, given.dp_degree or cluster.num_gpus // given.shards, cluster.num_gpus)
    if problem is not None:
        suggestion = Suggestion([[problem.edits]] if problem.edits else [], "write {}")
        found.error(problem.place, problem.reason, suggestion=suggestion)
        return
    split = config.serving.disaggregated
    if split is None or model is None:
        return
    for key in ("prefill_tp_degree", "decode_tp_degree"):
        degree = getattr(split, key)
        unfit = split_problem(model, degree) if degree is not None and degree > 1 else ""
        if unfit:
            found.error((*DISAGGREGATED, key), unfit)
