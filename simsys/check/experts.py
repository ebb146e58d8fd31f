"""Whether expert parallelism fits the model, the cluster and the other kinds of parallelism."""

from __future__ import annotations

from simsys.build.cluster import Cluster
from simsys.check.degrees import degree, degrees
from simsys.check.findings import Findings, Suggestion
from simsys.check.nearest import nearest_divisors
from simsys.config.experiment import SimulationConfig
from simsys.model.model import Model

EXPERTS = ("parallelism", "ep_degree")
LOADS = {"expert_skew": 1.0, "expert_capacity_factor": None}
"""Settings that count only where experts are divided, and their defaults."""


def check_experts(
    config: SimulationConfig, cluster: Cluster | None, replicas: int | None, model: Model | None, found: Findings
) -> None:
    """Book what is wrong with the division of experts; what is unknown (None) is not checked against.

    Args:
        config: The scenario.
        cluster: What it runs on.
        replicas: Ranks that hold the same weights.
        model: The model.
        found: Where problems are booked.
    """
    given = config.parallelism
    for key, default in LOADS.items():
        if given.ep_degree == 1 and getattr(given, key) != default:
            message = f"{key} has no effect without expert parallelism"
            suggestion = Suggestion(
                [degree(config, cluster, "ep_degree", 2), [{f"parallelism.{key}": default}]], "write {}"
            )
            found.error(("parallelism", key), message, suggestion=suggestion)
    if given.ep_degree == 1:
        return
    serving = config.serving is not None
    if serving and given.expert_capacity_factor is not None:
        message = "expert_capacity_factor is for training: engines that serve drop no tokens; remove it"
        found.error(("parallelism", "expert_capacity_factor"), message)
    if model is not None and model.experts == 1:
        found.error(EXPERTS, f"{model.name} has no experts to divide; use a mixture of experts such as Mixtral-8x7B")
    elif model is not None and model.experts % given.ep_degree:
        near = nearest_divisors(model.experts, given.ep_degree, replicas or 0)
        message = f"ep_degree {given.ep_degree} does not divide {model.experts} experts"
        found.error(EXPERTS, message, suggestion=degrees(config, cluster, "ep_degree", near))
    elif serving and given.ep_degree != given.tp_degree:
        message = "in serving, the ranks that share a layer each take whole experts, so ep_degree is tp_degree"
        suggestion = degrees(config, cluster, "ep_degree", [given.tp_degree])
        found.error(EXPERTS, f"{message} ({given.tp_degree}), not {given.ep_degree}", suggestion=suggestion)
    elif not serving and replicas is not None and replicas % given.ep_degree:
        experts = model.experts if model is not None else 0
        near = nearest_divisors(replicas, given.ep_degree, experts)
        message = f"ep_degree {given.ep_degree} does not divide the {replicas} ranks that hold the same weights"
        suggestion = degrees(config, cluster, "ep_degree", near)
        found.error(EXPERTS, f"{message} (dp_degree x cp_degree)", suggestion=suggestion)
    if given.tp_degree > 1 and not given.sequence_parallel and not serving:
        message = "expert beside tensor parallelism needs sequence_parallel: true, so that each token is sent once"
        suggestion = Suggestion([[{"parallelism.sequence_parallel": True}]])
        found.error(EXPERTS, message, suggestion=suggestion)
