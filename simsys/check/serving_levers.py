"""What would make serving fit: more of the GPUs there are, a smaller precision, smaller steps, more GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from simsys.build.serving import ServingJob
from simsys.build.serving_precision import weights_of
from simsys.check.levers import MAX_TENSOR_DEGREE, Lever
from simsys.check.parallelism import split_problem
from simsys.config.hardware import load_node
from simsys.model.precision import WEIGHT_ONLY
from simsys.parallel.passes import forward_pass
from simsys.parallel.stages import layer_count

MAX_NODES = 16
"""Beyond as many nodes for one replica, nobody is helped."""


def serving_levers(job: ServingJob) -> Iterator[Lever]:
    """More of the memory, more of the GPUs there are, then a smaller precision, smaller steps, more GPUs.

    At last come quantised weights.
    """
    usual = job.engine.gpu_memory_utilization
    if (job.settings.gpu_memory_utilization or usual) < usual:
        yield {"serving.gpu_memory_utilization": usual}
    gpus, precision = job.cluster.num_gpus, weights_of(job.settings, job.model)
    within = range(job.layout.tensor + 1, min(gpus, MAX_TENSOR_DEGREE) + 1)
    yield from _tensor_levers(job, within)
    yield from _pipeline_levers(job, job.config.hardware.num_nodes)
    has_fp8 = precision in ("fp32", "fp16", "bf16") and "fp8" in job.cluster.spec.peak_flop_per_s
    fp8: Lever = {"serving.precision": "fp8"}
    if has_fp8:
        yield fp8
    budget = job.settings.max_num_batched_tokens
    while budget // 2 >= job.settings.max_num_seqs:
        budget //= 2
        yield {"serving.max_num_batched_tokens": budget}
    if has_fp8:
        for lever in _tensor_levers(job, within):
            yield {**lever, **fp8}
    drawn = job.config.network.topology_type == "custom"  # for just these GPUs
    hardware, own = job.config.hardware, job.config.profile_folders
    if hardware.nodes is None and hardware.num_nodes == 1 and not drawn:
        whole = MAX_TENSOR_DEGREE if hardware.profile is None else load_node(hardware.profile, own).gpus_per_node
        yield from _tensor_levers(job, range(gpus + 1, min(whole, MAX_TENSOR_DEGREE) + 1))
    if not drawn:
        for num_nodes in range(job.config.hardware.num_nodes + 1, MAX_NODES + 1):
            yield from _pipeline_levers(job, num_nodes)
    if precision not in WEIGHT_ONLY:
        yield from ({"serving.precision": name} for name in ("int8", "int4"))


def _tensor_levers(job: ServingJob, degrees: Iterable[int]) -> Iterator[Lever]:
    """Degrees that divide the model and the GPUs, with the settings that must change along."""
    gpus, stages = job.cluster.num_gpus, job.layout.pipeline
    for degree in degrees:
        if split_problem(job.model, degree) or (degree <= gpus and gpus % (degree * stages)):
            continue
        lever: dict[str, Any] = {"parallelism.tp_degree": degree}
        if job.config.parallelism.ep_degree > 1:
            if job.model.experts % degree:
                continue
            lever["parallelism.ep_degree"] = degree
        lever |= _along(job, degree, stages, max(gpus, degree))
        if degree > gpus:
            lever["hardware.gpus_per_node"] = degree
        yield lever


def _pipeline_levers(job: ServingJob, num_nodes: int) -> Iterator[Lever]:
    """Pipelines on so many nodes, the shortest first: each stage has the GPUs of a node, as far as heads allow."""
    per_node, given = job.cluster.gpus_per_node, job.config.parallelism
    if given.stage_layers is not None or given.ep_degree > 1 or job.settings.speculative is not None:
        return
    whole = [degree for degree in range(1, per_node + 1) if not (per_node % degree or _split_problem(job, degree))]
    tensor, gpus = max(whole, default=job.layout.tensor), num_nodes * per_node
    for stages in range(job.layout.pipeline + 1, gpus // tensor + 1):
        if layer_count(forward_pass(job.model)) % stages or gpus % (tensor * stages):
            continue
        lever: dict[str, Any] = {"parallelism.pp_stages": stages}
        if tensor != job.layout.tensor:
            lever = {"parallelism.tp_degree": tensor, **lever}
        lever |= _along(job, tensor, stages, gpus)
        if num_nodes != job.config.hardware.num_nodes:
            lever["hardware.num_nodes"] = num_nodes
        yield lever


def _split_problem(job: ServingJob, degree: int) -> str:
    return split_problem(job.model, degree) if degree > 1 else ""


def _along(job: ServingJob, tensor: int, stages: int, gpus: int) -> dict[str, Any]:
    """The strategy and the replicas that go with such degrees, where they are written."""
    given = job.config.parallelism
    lever: dict[str, Any] = {}
    kinds = [kind for kind, named in (("TP", tensor > 1), ("EP", given.ep_degree > 1), ("PP", stages > 1)) if named]
    if given.strategy is not None and given.parts != frozenset(kinds):
        lever["parallelism.strategy"] = "_".join(kinds) or "None"
    replicas = max(1, gpus // (tensor * stages))
    if given.dp_degree is not None and given.dp_degree != replicas:
        lever["parallelism.dp_degree"] = replicas
    return lever
