"""Whether a scenario fits into device memory, and the cheapest setting that would make it fit.

A lever is a set of settings that can be written into the experiment file. It is named only after the scenario
with these settings has been built and has passed the same memory rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from simsys.build.cluster import Cluster, build_cluster
from simsys.build.serving import ServingJob, serving_job
from simsys.build.training import TrainingJob, training_job
from simsys.check.parallelism import split_problem
from simsys.config.experiment import SimulationConfig
from simsys.config.parallelism import DATA_STRATEGIES
from simsys.errors import InfeasibleError
from simsys.model.model import Model
from simsys.units import Dimension, pretty

Lever: TypeAlias = Mapping[str, Any]
"""Settings by dotted path, such as ``{"parallelism.tp_degree": 4}``."""

MAX_TENSOR_DEGREE = 64


def job_of(config: SimulationConfig, cluster: Cluster, model: Model) -> TrainingJob | ServingJob:
    """The scenario on a cluster and model that are built already."""
    return (training_job if config.training is not None else serving_job)(config, cluster, model)


def memory_problem(job: TrainingJob | ServingJob, tokens: int = 1) -> str:
    """Why a job does not fit into the memory of its GPUs; empty if it does.

    Args:
        job: What to fit.
        tokens: In serving, the shortest request (prompt and output) that must fit into the KV cache alone.
    """
    if isinstance(job, TrainingJob):
        available = job.cluster.spec.memory_bytes
        if sum(job.memory_bytes.values()) <= available:
            return ""
        return f"{_does_not_fit(job, job.memory_bytes)}, {_bytes(available)} are available"
    try:
        capacity = job.num_blocks * job.settings.block_size
    except InfeasibleError:
        needed = _does_not_fit(job, job.fixed_bytes)
        return f"{needed} before any KV cache, {_bytes(job.usable_bytes)} are usable"
    if tokens - 1 <= capacity:  # the last token of a request is never cached
        return ""
    held = f"{job.num_blocks} blocks of {job.settings.block_size}"
    return f"the KV cache has room for {capacity} tokens ({held}), but the shortest request has {tokens}"


def cheapest_lever(job: TrainingJob | ServingJob, tokens: int = 1) -> Lever | None:
    """The first setting, in the order of what it costs, with which the job fits; None if none of them helps."""
    candidates = _training_levers(job) if isinstance(job, TrainingJob) else _serving_levers(job)
    for lever in candidates:
        if not memory_problem(_pulled(job, lever), tokens):
            return lever
    return None


def lever_text(lever: Lever) -> str:
    """The settings as they would be written.

    Example:
        >>> lever_text({"parallelism.tp_degree": 4, "parallelism.dp_degree": 2})
        'parallelism.tp_degree: 4 and parallelism.dp_degree: 2'
    """
    return " and ".join(f"{path}: {value}" for path, value in lever.items())


def advice(job: TrainingJob | ServingJob, lever: Lever | None) -> str:
    """What would make the job fit, as the end of a message."""
    if lever is not None:
        return f"{lever_text(lever)} would fit"
    return "no single setting makes it fit; a smaller model or a GPU with more memory is needed"


def changed(config: SimulationConfig, lever: Lever) -> SimulationConfig:
    """The scenario with a lever's settings."""
    for path, value in lever.items():
        section, key = path.split(".")
        part = getattr(config, section).model_copy(update={key: value})
        config = config.model_copy(update={section: part})
    return config


def _pulled(job: TrainingJob | ServingJob, lever: Lever) -> TrainingJob | ServingJob:
    config = changed(job.config, lever)
    if not any(path.startswith("hardware.") for path in lever):
        return job_of(config, job.cluster, job.model)
    return job_of(config, build_cluster(config.hardware, config.network), job.model)


def _training_levers(job: TrainingJob) -> Iterator[Lever]:
    """What costs least first.

    A smaller batch costs nothing that gradient accumulation cannot make up for; FSDP communicates more; recomputation
    takes a third more time; SGD changes the training.
    """
    yield from _smaller_batch(job, {})
    if lever := _fully_sharded(job):
        yield lever
        yield from _smaller_batch(job, lever)
    if job.settings.activation_recompute != "full":
        lever = {"training.activation_recompute": "full"}
        yield lever
        yield from _smaller_batch(job, lever)
    if job.settings.optimizer == "adam":
        lever = {"training.optimizer": "sgd"}
        yield lever
        yield from _smaller_batch(job, lever)
    yield from _training_tensor_levers(job)


def _fully_sharded(job: TrainingJob) -> Lever:
    """FSDP in place of another strategy of data parallelism that simsys ships; empty if there is nothing to shard."""
    own = job.settings.data_parallel is not None or job.settings.options
    if own or job.layout.data == 1 or job.shards.weights == job.layout.data:
        return {}
    others = [kind for kind, axis in (("TP", "tensor"), ("PP", "pipeline")) if getattr(job.layout, axis) > 1]
    return {"parallelism.strategy": "_".join([*others, "FSDP"])}


def _training_tensor_levers(job: TrainingJob) -> Iterator[Lever]:
    """More tensor parallelism in place of replicas, with the batch as it is or, failing that, of 1."""
    given, gpus = job.config.parallelism, job.cluster.num_gpus
    for batch in dict.fromkeys((job.settings.batch_size_per_gpu, 1)):
        for degree in range(job.layout.tensor + 1, min(gpus // given.pp_stages, MAX_TENSOR_DEGREE) + 1):
            if split_problem(job.model, degree) or gpus % (degree * given.pp_stages):
                continue
            lever: dict[str, Any] = {"parallelism.tp_degree": degree}
            if given.strategy is not None:
                data = [part for part in DATA_STRATEGIES if part in given.parts and gpus > degree * given.pp_stages]
                lever["parallelism.strategy"] = "_".join(["TP", *(["PP"] if "PP" in given.parts else []), *data])
            if given.dp_degree is not None:
                lever["parallelism.dp_degree"] = gpus // (degree * given.pp_stages)
            if batch != job.settings.batch_size_per_gpu:
                lever["training.batch_size_per_gpu"] = batch
            yield lever


def _smaller_batch(job: TrainingJob, lever: Lever) -> Iterator[Lever]:
    """The largest batch that fits, by bisection: memory grows with it."""
    key = "training.batch_size_per_gpu"
    low, high = 0, job.settings.batch_size_per_gpu  # low fits (or is none), high does not
    while high - low > 1:
        middle = (low + high) // 2
        fits = not memory_problem(_pulled(job, {key: middle, **lever}))
        low, high = (middle, high) if fits else (low, middle)
    if low:
        yield {key: low, **lever}


def _serving_levers(job: ServingJob) -> Iterator[Lever]:
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
    if job.config.hardware.profile is None and job.config.hardware.num_nodes == 1:
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


def _does_not_fit(job: TrainingJob | ServingJob, components: Mapping[str, float]) -> str:
    parts = ", ".join(f"{name} {_bytes(size)}" for name, size in components.items() if size)
    needed = _bytes(sum(components.values()))
    return f"{job.model.name} does not fit into {job.cluster.spec.name}: {needed} are needed ({parts})"


def _bytes(size: float) -> str:
    return pretty(size, Dimension.BYTES)
