"""Checks whether expert parallelism fits the model, the cluster and the other kinds of parallelism."""

from __future__ import annotations

from collections.abc import Sequence

from simsys.build.rules.degrees import degree, degrees
from simsys.build.rules.findings import Findings, Suggestion
from simsys.build.rules.nearest import nearest_divisors
from simsys.build.rules.parallelism import same_weights
from simsys.build.rules.registry import Parts, rule
from simsys.config.experiment import SimulationConfig
from simsys.config.experts import ExpertsConfig
from simsys.config.parallelism import ParallelismConfig
from simsys.config.serving_options import PoolDegrees
from simsys.errors import UsageError
from simsys.model.model import Model
from simsys.parallel.passes import forward_pass
from simsys.parallel.segments import Experts, WideExperts

EXPERTS, ATTENTION = ("parallelism", "ep_degree"), ("parallelism", "attention_dp")
LOADS = {
    "expert_skew": 1.0,
    "expert_capacity_factor": None,
    "expert_dispatch": "all_to_all",
    "expert_overlap": False,
    "shared_expert_overlap": False,
}
"""Settings that have an effect only with expert parallelism, and their defaults."""


@rule("parallelism.expert_skew")
def loads(parts: Parts, found: Findings) -> None:
    """The load of experts needs expert parallelism, and their capacity is for training only."""
    given = parts.config.parallelism
    for key, default in LOADS.items():
        if given.ep_degree == 1 and getattr(given, key) != default:
            message = f"{key} has no effect without expert parallelism"
            divided = degree(parts.config, parts.cluster, "ep_degree", 2)
            suggestion = Suggestion([divided, [{f"parallelism.{key}": default}]], "write {}")
            found.error(("parallelism", key), message, suggestion=suggestion)
    for key, instead in (
        ("expert_dispatch", "serving.experts.dispatch"),
        *((key, "two_batch_overlap") for key in ("expert_overlap", "shared_expert_overlap")),
    ):
        if given.ep_degree > 1 and parts.config.serving is not None and getattr(given, key) != LOADS[key]:
            found.error(("parallelism", key), f"{key} is for training; write {instead} of serving.experts")
    if given.ep_degree > 1 and parts.config.serving is not None and given.expert_capacity_factor is not None:
        message = "expert_capacity_factor is for training: engines that serve drop no tokens; remove it"
        found.error(("parallelism", "expert_capacity_factor"), message)


@rule("parallelism.ep_degree")
def divided_experts(parts: Parts, found: Findings) -> None:
    """Each expert-parallel rank has whole experts, and all of them an equal number of tokens."""
    config, given = parts.config, parts.config.parallelism
    if given.ep_degree == 1:
        return
    serving, model, ranks = config.serving is not None, parts.model, same_weights(parts)
    placed = None if config.serving is None else config.serving.experts
    if ranks is not None and given.whole_experts:
        ranks *= given.tp_degree
    if model is not None and model.experts == 1:
        found.error(EXPERTS, f"{model.name} has no experts to divide; use a mixture of experts such as Mixtral-8x7B")
    elif model is not None and unequal_ranks(model, placed, given.ep_degree):
        near = nearest_divisors(model.experts, given.ep_degree, ranks or 0)
        message = f"ep_degree {given.ep_degree} does not divide {model.experts} experts"
        found.error(EXPERTS, message, suggestion=degrees(config, parts.cluster, "ep_degree", near))
    elif serving and given.attention_dp > 1:
        return  # `attention_in_data_parallelism` checks it
    elif serving and given.ep_degree != given.tp_degree:
        message = "in serving, the ranks that share a layer each have whole experts, so ep_degree is tp_degree"
        suggestion = degrees(config, parts.cluster, "ep_degree", [given.tp_degree])
        found.error(EXPERTS, f"{message} ({given.tp_degree}), not {given.ep_degree}", suggestion=suggestion)
    elif not serving and ranks is not None and ranks % given.ep_degree:
        near = nearest_divisors(ranks, given.ep_degree, model.experts if model is not None else 0)
        message = f"ep_degree {given.ep_degree} does not divide the {ranks} ranks that hold the same weights"
        suggestion = degrees(config, parts.cluster, "ep_degree", near)
        of = "tp_degree x dp_degree x cp_degree" if given.whole_experts else "dp_degree x cp_degree"
        found.error(EXPERTS, f"{message} ({of})", suggestion=suggestion)
    if given.tp_degree > 1 and not given.sequence_parallel and not serving:
        message = "expert with tensor parallelism needs sequence_parallel: true, so that each token is sent once"
        suggestion = Suggestion([[{"parallelism.sequence_parallel": True}]])
        found.error(EXPERTS, message, suggestion=suggestion)


@rule("parallelism.expert_tp_degree")
def whole_experts(parts: Parts, found: Findings) -> None:
    """Training divides each expert as the rest of a layer, or not at all."""
    given, path = parts.config.parallelism, ("parallelism", "expert_tp_degree")
    if given.expert_tp_degree is None:
        return
    if parts.config.serving is not None:
        message = "expert_tp_degree is for training; in serving it follows from tp_degree, attention_dp and ep_degree"
        found.error(path, f"{message}; remove it")
    elif given.expert_tp_degree not in (1, given.tp_degree):
        message = f"experts are divided by tensor parallelism as other layers ({given.tp_degree}) or not at all (1)"
        edits = [[{"parallelism.expert_tp_degree": each}] for each in sorted({1, given.tp_degree})]
        found.error(path, f"{message}, not {given.expert_tp_degree}", suggestion=Suggestion(edits, "write {}"))
    elif given.expert_tp_degree != given.tp_degree and given.ep_degree == 1:
        message = "experts that tensor parallelism leaves whole are divided by expert parallelism; write ep_degree"
        found.error(path, message)


@rule("parallelism.attention_dp")
def attention_in_data_parallelism(parts: Parts, found: Findings) -> None:
    """Data-parallel ranks of a serving replica share the experts of a mixture, and step together."""
    config, given, model = parts.config, parts.config.parallelism, parts.model
    if config.serving is None:
        if given.attention_dp > 1:
            message = "attention_dp is for serving; in training, ep_degree divides the experts of dp_degree"
            found.error(ATTENTION, message)
        return
    if model is None or given.attention_dp == 1:
        return
    if model.experts == 1:
        message = f"{model.name} has no experts to share; replicas of a dense model are parallelism.dp_degree"
        found.error(ATTENTION, message, suggestion=Suggestion([[{"parallelism.attention_dp": 1}]], "write {}"))
        return
    placed = config.serving.experts
    problem, near = shared_experts_problem(model, given.tp_degree, given.attention_dp, given.ep_degree, placed)
    if problem:
        found.error(EXPERTS, problem, suggestion=degrees(config, parts.cluster, "ep_degree", near))


WIDE = ("dispatch", "decode_dispatch", "dispatch_precision", "two_batch_overlap", "shared_experts", "rebalance_steps")
"""Settings of ``serving.experts`` for experts that data-parallel ranks share."""


@rule("serving.experts")
def used_experts(parts: Parts, found: Findings) -> None:
    """Settings of experts need experts that are divided, and most of them data-parallel ranks that share these."""
    assert parts.config.serving is not None
    given, pools, model = parts.config.serving.experts, degrees_of_pools(parts.config), parts.model
    if given is None:
        return
    path, shared = ("serving", "experts"), [pool for pool in pools if pool.attention_dp > 1]
    for key in WIDE if not shared else ():
        if getattr(given, key) != type(given).model_fields[key].default:
            found.error((*path, key), f"{key} has no effect without attention_dp; remove it, or write attention_dp")
    if all(pool.ep_degree == 1 for pool in pools) and (given.weighted or given.eplb):
        found.error(path, "the popularity of experts has no effect without ep_degree, as every rank has all of them")
    if given.weighted and parts.config.parallelism.expert_skew != 1.0:
        key = "counts" if given.counts is not None else "popularity_exponent"
        found.error((*path, key), f"expert_skew and {key} both give the load of the busiest rank; keep one of them")
    if given.decode_dispatch is not None and parts.config.serving.disaggregated is None:
        found.error((*path, "decode_dispatch"), "there are no decode replicas; write dispatch instead")
    if model is not None:
        _check_sizes(given, model, pools, found)


def _check_sizes(
    given: ExpertsConfig, model: Model, pools: Sequence[ParallelismConfig | PoolDegrees], found: Findings
) -> None:
    """Counts are those of the model's experts, ranks have equally many, and senders find whole experts."""
    path = ("serving", "experts")
    if given.padded_rows > 1 and model.experts == 1:
        found.error((*path, "padded_rows"), f"padded_rows has no effect, as {model.name} has no experts; remove it")
    if given.identical_sequences > 1 and model.experts == 1:
        message = f"identical_sequences has no effect, as {model.name} has no experts; remove it"
        found.error((*path, "identical_sequences"), message)
    if given.counts is not None and len(given.counts) != model.experts:
        found.error((*path, "counts"), f"{len(given.counts)} counts, but {model.name} has {model.experts} experts")
    for pool in pools:
        if (model.experts + given.redundant_experts) % pool.ep_degree:
            near = -(-model.experts // pool.ep_degree) * pool.ep_degree - model.experts
            text = f"{model.experts} experts and {given.redundant_experts} replicas cannot be divided evenly among"
            edits = [[{"serving.experts.redundant_experts": near + more * pool.ep_degree}] for more in (0, 1)]
            message = f"{text} ep_degree {pool.ep_degree} ranks"
            found.error((*path, "redundant_experts"), message, suggestion=Suggestion(edits, "write {}"))
            break
    sends = {given.dispatch, given.decode_dispatch} - {"all_gather", None}
    for pool in pools:
        gpus = pool.attention_dp * pool.tp_degree
        if sends and pool.attention_dp > 1 and pool.ep_degree != gpus:
            text = f"tokens are sent to GPUs with whole experts, so ep_degree is attention_dp x tp_degree ({gpus})"
            found.error((*path, "dispatch"), f"{text}, not {pool.ep_degree}; or write dispatch: all_gather")
            break


def degrees_of_pools(config: SimulationConfig) -> Sequence[ParallelismConfig | PoolDegrees]:
    """The degrees of the replicas of each kind of a serving scenario."""
    split = config.serving.disaggregated if config.serving is not None else None
    return (config.parallelism,) if split is None else split.pools(config.parallelism)


def unequal_ranks(model: Model, placed: ExpertsConfig | None, degree: int) -> bool:
    """Whether ranks have unequal numbers of experts; redundant ones may fill them, which `used_experts` checks."""
    return model.experts % degree > 0 and not (placed is not None and placed.redundant_experts)


def shared_experts_problem(
    model: Model, tensor: int, attention: int, expert: int, placed: ExpertsConfig | None
) -> tuple[str, list[int]]:
    """Why experts cannot be divided among the GPUs of data-parallel ranks; empty if they can.

    Args:
        model: A mixture of experts.
        tensor: GPUs of a data-parallel rank.
        attention: Data-parallel ranks.
        expert: Expert-parallel degree.
        placed: How serving places experts; None without settings.

    Returns:
        The problem, and the nearest degrees without one.
    """
    gpus = tensor * attention
    near = nearest_divisors(gpus, expert, model.experts)
    if gpus % expert:
        text = f"attention_dp {attention} x tp_degree {tensor} = {gpus} GPUs"
        return f"ep_degree {expert} does not divide {text} that share the experts", near
    if unequal_ranks(model, placed, expert):
        return f"ep_degree {expert} does not divide {model.experts} experts", near
    try:
        forward_pass(model, tensor, experts=Experts(expert, wide=WideExperts(attention, tensor=gpus // expert)))
    except UsageError as error:
        return f"{error} (each expert on {gpus // expert} GPUs)", near
    return "", []
