"""What would make serving fit: more of the GPUs there are, a smaller precision, smaller steps, more GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from simsys.build.serving import ServingJob
from simsys.check.levers import MAX_TENSOR_DEGREE, Lever
from simsys.check.parallelism import split_problem


def serving_levers(job: ServingJob) -> Iterator[Lever]:
    """More of the GPUs there are, then a smaller precision, then smaller steps, then more GPUs."""
    gpus = job.cluster.num_gpus
    within = range(job.layout.tensor + 1, min(gpus, MAX_TENSOR_DEGREE) + 1)
    yield from _tensor_levers(job, within)
    has_fp8 = job.settings.precision != "fp8" and "fp8" in job.cluster.spec.peak_flop_per_s
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
    hardware = job.config.hardware
    if hardware.profile is None and hardware.nodes is None and hardware.num_nodes == 1 and not drawn:
        yield from _tensor_levers(job, range(gpus + 1, MAX_TENSOR_DEGREE + 1))


def _tensor_levers(job: ServingJob, degrees: Iterable[int]) -> Iterator[Lever]:
    """Degrees that divide the model and the GPUs, with the settings that must change along."""
    given, gpus = job.config.parallelism, job.cluster.num_gpus
    for degree in degrees:
        if split_problem(job.model, degree) or (degree <= gpus and gpus % degree):
            continue
        lever: dict[str, Any] = {"parallelism.tp_degree": degree}
        if given.strategy == "None":
            lever["parallelism.strategy"] = "TP"
        if given.dp_degree is not None and given.dp_degree != max(1, gpus // degree):
            lever["parallelism.dp_degree"] = max(1, gpus // degree)
        if degree > gpus:
            lever["hardware.gpus_per_node"] = degree
        yield lever
