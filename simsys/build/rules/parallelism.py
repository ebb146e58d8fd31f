"""Checks whether the degrees of parallelism fit the cluster and the model."""

from __future__ import annotations

from collections.abc import Sequence

from simsys.build.rules.degrees import degree, degrees
from simsys.build.rules.findings import Findings, Remedy, Suggestion
from simsys.build.rules.nearest import nearest_divisors
from simsys.build.rules.registry import Parts, rule
from simsys.config.parallelism import ParallelismConfig
from simsys.errors import UsageError
from simsys.model.model import Model
from simsys.parallel.passes import forward_pass

TENSOR, DATA = ("parallelism", "tp_degree"), ("parallelism", "dp_degree")

TRAINING_ALONE = {
    "order": "in serving, the ranks of a replica are consecutive, and so are the ranks of each stage",
    "schedule": "in serving, batches go through the stages in the order in which they are issued",
    "p2p_overlap": "in serving, sends between stages always overlap with the next batch",
}
"""Settings of parallelism for training only, with the behaviour of serving."""


@rule("parallelism.order")
def of_training_alone(parts: Parts, found: Findings) -> None:
    """Refuse settings for training in serving, where they would have no effect."""
    given = parts.config.parallelism
    if parts.config.training is not None:
        return
    for key, instead in TRAINING_ALONE.items():
        if getattr(given, key) != type(given).model_fields[key].default:
            found.error(("parallelism", key), f"{key} is for training: {instead}; remove {key}")


@rule("parallelism.dp_degree")
def all_gpus_are_used(parts: Parts, found: Findings) -> None:
    """The product of the degrees is the number of GPUs."""
    if parts.cluster is None:
        return
    given, gpus = parts.config.parallelism, parts.cluster.num_gpus
    if given.dp_degree is None:
        _check_groups(parts, gpus, found)
    elif given.shards * given.dp_degree != gpus:
        product = given.shards * given.dp_degree
        message = f"{_product(given)} x dp {given.dp_degree} = {product}, the cluster has {_gpus(gpus)}"
        found.error(DATA, message, suggestion=Suggestion(_fitting_degrees(parts, gpus, given.dp_degree, found)))


def _check_groups(parts: Parts, gpus: int, found: Findings) -> None:
    """Without ``dp_degree``, the other degrees divide the GPUs."""
    config, given, model = parts.config, parts.config.parallelism, parts.model
    shards, tensor = given.shards, given.tp_degree
    if shards > tensor and gpus % shards:
        key = next(name for name in ("pp_stages", "cp_degree", "attention_dp") if getattr(given, name) > 1)
        near = nearest_divisors(max(1, gpus * getattr(given, key) // shards), getattr(given, key))
        message = f"{_product(given)} = {shards} does not divide {_gpus(gpus)}"
        found.error(("parallelism", key), message, suggestion=degrees(config, parts.cluster, key, near))
    elif gpus % tensor:
        near = nearest_divisors(gpus, tensor, model.num_attention_heads if model is not None else 0)
        message = f"{_gpus(gpus)} cannot be divided into groups of tp_degree {tensor}"
        found.error(TENSOR, message, suggestion=degrees(config, parts.cluster, "tp_degree", near))


def _fitting_degrees(parts: Parts, gpus: int, data: int, found: Findings) -> list[Sequence[Remedy]]:
    """Propose settings with which the product of the degrees is the number of GPUs."""
    assert parts.cluster is not None
    given, shards = parts.config.parallelism, parts.config.parallelism.shards
    groups: list[Sequence[Remedy]] = []
    if gpus % shards == 0:
        groups.append([{"parallelism.dp_degree": gpus // shards}])
    others = data * given.pp_stages * given.cp_degree * given.attention_dp
    if gpus % others == 0 and gpus // others > 1 and given.tp_degree > 1:
        groups.append([{"parallelism.tp_degree": gpus // others}])
    nodes, rest = divmod(shards * data, parts.cluster.gpus_per_node)
    if not rest and not found.written(("hardware", "nodes")):
        groups.append([{"hardware.num_nodes": nodes}])
    if not groups:
        names = [name for name in ("pp_stages", "cp_degree", "attention_dp", "tp_degree") if getattr(given, name) > 1]
        for name in names or ["tp_degree"]:
            near = nearest_divisors(gpus, getattr(given, name))
            groups += [degree(parts.config, parts.cluster, name, each) for each in near]
    return groups


@rule("parallelism.tp_degree")
def tensor_parallelism_divides_the_model(parts: Parts, found: Findings) -> None:
    """Each rank of a tensor-parallel group has whole heads and an equal number of rows of each matrix."""
    given, model = parts.config.parallelism, parts.model
    problem = split_problem(model, given.tp_degree) if model is not None and given.tp_degree > 1 else ""
    if problem and model is not None:
        gpus = parts.cluster.num_gpus if parts.cluster is not None else 0
        near = nearest_divisors(max(1, model.num_attention_heads), given.tp_degree, gpus)
        found.error(TENSOR, problem, suggestion=degrees(parts.config, parts.cluster, "tp_degree", near))


def split_problem(model: Model, tensor_degree: int) -> str:
    """Why tensor parallelism of this degree cannot divide the model; empty if it can."""
    heads, kv_heads = model.num_attention_heads, model.num_key_value_heads
    if not heads:
        return f"{model.name} has no attention heads, which tensor parallelism divides"
    if heads % tensor_degree:
        return f"{model.name} has {heads} attention heads, which tp_degree {tensor_degree} does not divide"
    if kv_heads % tensor_degree and tensor_degree % kv_heads:
        return (
            f"{model.name} has {kv_heads} key-value heads; tp_degree ({tensor_degree}) must divide that or be a "
            "multiple of it"
        )
    try:
        forward_pass(model, tensor_degree)
    except UsageError as error:
        return str(error)
    return ""


def same_weights(parts: Parts) -> int | None:
    """The number of ranks with equal weights; None if it is unknown."""
    given, cluster = parts.config.parallelism, parts.cluster
    if given.dp_degree is not None:
        return given.dp_degree * given.cp_degree
    return cluster.num_gpus // given.shards * given.cp_degree if cluster is not None else None


def replicas_of(parts: Parts) -> int:
    """The number of replicas that the GPUs hold, with ``tp_degree`` GPUs in each stage."""
    assert parts.cluster is not None
    given = parts.config.parallelism
    return given.dp_degree or parts.cluster.num_gpus // given.shards


def _product(given: ParallelismConfig) -> str:
    context = f" x cp {given.cp_degree}" if given.cp_degree > 1 else ""
    attention = f" x attention_dp {given.attention_dp}" if given.attention_dp > 1 else ""
    return f"tp {given.tp_degree}{context}{attention} x pp {given.pp_stages}"


def _gpus(count: int) -> str:
    return f"{count} GPU{'s' if count > 1 else ''}"
