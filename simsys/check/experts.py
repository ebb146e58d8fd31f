"""Whether expert parallelism fits the model, the cluster and the other kinds of parallelism."""

from __future__ import annotations

from simsys.check.findings import Findings
from simsys.check.nearest import nearest_divisors
from simsys.config.experiment import SimulationConfig
from simsys.model.model import Model

EXPERTS = ("parallelism", "ep_degree")
LOADS = {"expert_skew": 1.0, "expert_capacity_factor": None}
"""Settings that count only where experts are divided, and their defaults."""


def check_experts(config: SimulationConfig, replicas: int | None, model: Model | None, found: Findings) -> None:
    """Book what is wrong with the division of experts; what is unknown (None) is not checked against.

    Args:
        config: The scenario.
        replicas: Ranks that hold the same weights.
        model: The model.
        found: Where problems are booked.
    """
    given = config.parallelism
    for key, default in LOADS.items():
        if given.ep_degree == 1 and getattr(given, key) != default:
            found.error(("parallelism", key), f"{key} has no effect without expert parallelism; write ep_degree: 2")
    if given.ep_degree == 1:
        return
    serving = config.serving is not None
    if serving and given.expert_capacity_factor is not None:
        message = "expert_capacity_factor is for training: engines that serve drop no tokens; remove it"
        found.error(("parallelism", "expert_capacity_factor"), message)
    if model is not None and model.experts == 1:
        found.error(EXPERTS, f"{model.name} has no experts to divide; use a mixture of experts such as Mixtral-8x7B")
    elif model is not None and model.experts % given.ep_degree:
        fitting = nearest_divisors(model.experts, given.ep_degree, replicas or 0, key="ep_degree")
        found.error(EXPERTS, f"ep_degree {given.ep_degree} does not divide {model.experts} experts; {fitting}")
    elif serving and given.ep_degree != given.tp_degree:
        message = "in serving, the ranks that share a layer each take whole experts, so ep_degree is tp_degree"
        found.error(EXPERTS, f"{message} ({given.tp_degree}), not {given.ep_degree}")
    elif not serving and replicas is not None and replicas % given.ep_degree:
        experts = model.experts if model is not None else 0
        fitting = nearest_divisors(replicas, given.ep_degree, experts, key="ep_degree")
        found.error(
            EXPERTS,
            f"ep_degree {given.ep_degree} does not divide the {replicas} ranks that hold the same weights "
            f"(dp_degree x cp_degree); {fitting}",
        )
    if given.tp_degree > 1 and not given.sequence_parallel and not serving:
        message = "expert beside tensor parallelism needs sequence_parallel: true, so that each token is sent once"
        found.error(EXPERTS, message)
