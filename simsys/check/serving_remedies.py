"""Remedies that make serving fit: one small function for each kind, and the rules for the settings of a job.

A kind yields its variants, the mildest first. To add one, write such a function and put it into `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, TypeAlias, cast

from simsys.build.job import job_of
from simsys.build.rules import Parts, apply_rules
from simsys.build.rules.findings import Findings, Remedy, unlocated
from simsys.build.rules.parallelism import split_problem
from simsys.build.serving import ServingJob
from simsys.build.serving_precision import kv_precision, weights_of
from simsys.check.combining import Combining
from simsys.check.remedies import MAX_TENSOR_DEGREE, changed_setup, memory_problem
from simsys.config.hardware import load_node
from simsys.errors import InfeasibleError, SimsysError
from simsys.model.precision import WEIGHT_ONLY, half_of
from simsys.parallel.passes import forward_pass
from simsys.parallel.stages import layer_count

Kind: TypeAlias = Callable[[ServingJob], Iterator[Remedy]]
Variant: TypeAlias = tuple[Remedy, ServingJob]
"""A remedy, and the job with its settings."""

MAX_NODES = 16
"""Most nodes of a replica that are proposed."""
MOST_OF_MEMORY = 0.95
"""Largest share of device memory that is proposed for an engine; the rest is for memory that it does not count."""
POOLS = ("prefill", "decode")


def memory_share(job: ServingJob) -> Iterator[Remedy]:
    """A larger share of the memory: the engine's default, or nearly all."""
    usual = job.settings.defaults["gpu_memory_utilization"].value
    share = job.settings.gpu_memory_utilization
    if job.settings.num_gpu_blocks_override is not None or job.settings.kv_cache_memory_bytes is not None:
        return  # these settings give the size of the cache instead
    yield from ({"serving.gpu_memory_utilization": more} for more in (usual, MOST_OF_MEMORY) if more > share)


def fewer_blocks(job: ServingJob) -> Iterator[Remedy]:
    """The number of KV blocks that fit, if the scenario asks for more."""
    written = job.settings.num_gpu_blocks_override
    room = min(
        int(pool.free_bytes(held) // pool.block_bytes(stage))
        for pool in job.pools
        for stage, held in enumerate(pool.fixed_by_stage)
    )
    if written is not None and job.layout.pipeline <= room < written:
        yield {"serving.num_gpu_blocks_override": room}


def more_tensor(job: ServingJob) -> Iterator[Remedy]:
    """Larger tensor-parallel groups on the present GPUs."""
    if job.settings.disaggregated is not None:
        yield from _pool_remedies(job)
        return
    yield from _tensor_remedies(job, range(job.layout.tensor + 1, min(job.cluster.num_gpus, MAX_TENSOR_DEGREE) + 1))


def more_stages(job: ServingJob) -> Iterator[Remedy]:
    """Pipelines over the present GPUs."""
    yield from _pipeline_remedies(job, job.config.hardware.num_nodes)


def smaller_steps(job: ServingJob) -> Iterator[Remedy]:
    """Fewer tokens per step, for smaller activations."""
    budget = job.settings.max_num_batched_tokens
    while budget // 2 >= job.settings.max_num_seqs:
        budget //= 2
        yield {"serving.max_num_batched_tokens": budget}


def fewer_sequences(job: ServingJob) -> Iterator[Remedy]:
    """Fewer sequences per step, for fewer logits."""
    count = job.settings.max_num_seqs
    while count > 1:
        count //= 2
        yield {"serving.max_num_seqs": count}


def small_cache(job: ServingJob) -> Iterator[Remedy]:
    """A KV cache in 8 bit."""
    known = job.engine.kv_precisions
    half = half_of(job.cluster.spec.peak_flop_per_s)
    if kv_precision(job.settings, job.model, half) == half and (known is None or "fp8" in known):
        yield {"serving.kv_precision": "fp8"}


def small_weights(job: ServingJob) -> Iterator[Remedy]:
    """Weights and arithmetic in 8 bit if the GPUs support it, or weights alone in 8 or 4 bit."""
    precision = weights_of(job.settings, job.model)
    if precision in ("fp32", "fp16", "bf16") and "fp8" in job.cluster.spec.peak_flop_per_s:
        yield {"serving.precision": "fp8"}
    if precision not in WEIGHT_ONLY:
        yield from ({"serving.precision": name} for name in ("int8", "int4"))


def more_gpus(job: ServingJob) -> Iterator[Remedy]:
    """A node with more GPUs."""
    hardware, own, gpus = job.config.hardware, job.config.profile_folders, job.cluster.num_gpus
    if hardware.nodes is None and hardware.num_nodes == 1 and not _drawn(job) and not job.settings.disaggregated:
        whole = MAX_TENSOR_DEGREE if hardware.profile is None else load_node(hardware.profile, own).gpus_per_node
        yield from _tensor_remedies(job, range(gpus + 1, min(whole, MAX_TENSOR_DEGREE) + 1))


def more_nodes(job: ServingJob) -> Iterator[Remedy]:
    """Pipelines over more nodes."""
    if not _drawn(job) and not job.settings.disaggregated:
        for num_nodes in range(job.config.hardware.num_nodes + 1, MAX_NODES + 1):
            yield from _pipeline_remedies(job, num_nodes)


def twice_the_replicas(job: ServingJob) -> Iterator[Remedy]:
    """Twice the nodes, with twice the replicas; no remedy for a replica that does not fit."""
    hardware, given = job.config.hardware, job.config.parallelism
    if hardware.nodes is not None or _drawn(job):
        return
    remedy: dict[str, Any] = {"hardware.num_nodes": 2 * hardware.num_nodes}
    if given.dp_degree is not None:
        remedy["parallelism.dp_degree"] = 2 * given.dp_degree
    split, scaled = job.settings.disaggregated, job.settings.autoscaling
    if split is not None:
        remedy["serving.disaggregated.prefill_replicas"] = 2 * split.prefill_replicas
        remedy["serving.disaggregated.decode_replicas"] = 2 * split.decode_replicas
    if scaled is not None and scaled.max_replicas is not None:
        remedy["serving.autoscaling.max_replicas"] = 2 * scaled.max_replicas
    yield remedy


KINDS: tuple[Kind, ...] = (
    memory_share,
    fewer_blocks,
    more_tensor,
    more_stages,
    smaller_steps,
    fewer_sequences,
    small_cache,
    small_weights,
    more_gpus,
    more_nodes,
)
"""Kinds of remedies, ordered by their usual costs, the lowest first."""


def combining(job: ServingJob, tokens: int) -> Combining[ServingJob]:
    """The remedies of a job that must have room for a request of `tokens` tokens."""

    def fits(changed: ServingJob) -> bool:
        return not memory_problem(changed, tokens)

    return Combining(job, KINDS, _checked, fits, lambda changed: -_room(changed))


def _checked(job: ServingJob, remedy: Remedy) -> ServingJob | None:
    """The job with a remedy's settings; None if they do not fit together."""
    found, (config, cluster) = Findings(unlocated({})), changed_setup(job, remedy)
    apply_rules(Parts(config, cluster.spec, job.model, job.engine, cluster), found, ("parallelism", "serving"))
    if found.errors:
        return None
    try:
        made = cast(ServingJob, job_of(config, cluster, job.model))
    except SimsysError:
        return None
    with suppress(InfeasibleError):
        _ = [pool.fixed_by_stage for pool in made.pools]
    return made


def _room(job: ServingJob) -> float:
    """Tokens that fit into the remaining memory of the fullest GPU; negative if there is no room."""
    return min(
        float(pool.free_bytes(held)) / max(1.0, pool.token_bytes(stage))
        for pool in job.pools
        for stage, held in enumerate(pool.fixed_by_stage)
    )


def _drawn(job: ServingJob) -> bool:
    """Whether the network is defined for exactly this number of GPUs."""
    return job.config.network.topology_type == "custom"


def _pool_remedies(job: ServingJob) -> Iterator[Remedy]:
    """Larger degrees of prefill or decode replicas, with fewer replicas on the present GPUs."""
    split = job.settings.disaggregated
    assert split is not None
    degrees = dict(zip(POOLS, split.tp_degrees(job.layout.tensor), strict=True))
    counts = {"prefill": split.prefill_replicas, "decode": split.decode_replicas}
    for names in (("prefill",), ("decode",), POOLS):
        factor = 2
        while all(counts[name] % factor == 0 and degrees[name] * factor <= MAX_TENSOR_DEGREE for name in names):
            remedy: dict[str, Any] = {}
            for name in POOLS:
                degree = degrees[name] * (factor if name in names else 1)
                remedy[f"serving.disaggregated.{name}_tp_degree"] = degree
                if name in names:
                    remedy[f"serving.disaggregated.{name}_replicas"] = counts[name] // factor
            if not any(_split_problem(job, remedy[f"serving.disaggregated.{name}_tp_degree"]) for name in POOLS):
                yield remedy
            factor *= 2


def _tensor_remedies(job: ServingJob, degrees: Iterable[int]) -> Iterator[Remedy]:
    """Degrees that divide the model and the GPUs, with the settings that must change with them."""
    gpus, stages = job.cluster.num_gpus, job.layout.pipeline
    for degree in degrees:
        if split_problem(job.model, degree) or (degree <= gpus and gpus % (degree * stages)):
            continue
        remedy: dict[str, Any] = {"parallelism.tp_degree": degree}
        if job.config.parallelism.ep_degree > 1:
            if job.model.experts % degree:
                continue
            remedy["parallelism.ep_degree"] = degree
        remedy |= _along(job, degree, stages, max(gpus, degree))
        if degree > gpus:
            remedy["hardware.gpus_per_node"] = degree
        yield remedy


def _pipeline_remedies(job: ServingJob, num_nodes: int) -> Iterator[Remedy]:
    """Pipelines on `num_nodes` nodes, the shortest first; a stage has the GPUs of a node, if the heads allow it."""
    per_node, given = job.cluster.gpus_per_node, job.config.parallelism
    if given.stage_layers is not None or given.ep_degree > 1:
        return
    if job.settings.disaggregated is not None:
        return
    whole = [degree for degree in range(1, per_node + 1) if not (per_node % degree or _split_problem(job, degree))]
    tensor, gpus = max(whole, default=job.layout.tensor), num_nodes * per_node
    for stages in range(job.layout.pipeline + 1, gpus // tensor + 1):
        if layer_count(forward_pass(job.model)) % stages or gpus % (tensor * stages):
            continue
        remedy: dict[str, Any] = {"parallelism.pp_stages": stages}
        if tensor != job.layout.tensor:
            remedy = {"parallelism.tp_degree": tensor, **remedy}
        remedy |= _along(job, tensor, stages, gpus)
        if num_nodes != job.config.hardware.num_nodes:
            remedy["hardware.num_nodes"] = num_nodes
        yield remedy


def _split_problem(job: ServingJob, degree: int) -> str:
    return split_problem(job.model, degree) if degree > 1 else ""


def _along(job: ServingJob, tensor: int, stages: int, gpus: int) -> dict[str, Any]:
    """The written strategy, replicas and autoscaling limits, adapted to such degrees."""
    given, scaled = job.config.parallelism, job.settings.autoscaling
    remedy: dict[str, Any] = {}
    kinds = [kind for kind, named in (("TP", tensor > 1), ("EP", given.ep_degree > 1), ("PP", stages > 1)) if named]
    if given.strategy is not None and given.parts != frozenset(kinds):
        remedy["parallelism.strategy"] = "_".join(kinds) or "None"
    replicas = max(1, gpus // (tensor * stages))
    if given.dp_degree is not None and given.dp_degree != replicas:
        remedy["parallelism.dp_degree"] = replicas
    for key in ("min_replicas", "max_replicas"):
        if scaled is not None and (getattr(scaled, key) or 0) > replicas:
            remedy[f"serving.autoscaling.{key}"] = replicas
    return remedy
