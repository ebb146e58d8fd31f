"""What the figures of a serving run rest on, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from simsys.build.resolved_serving import defaults_text
from simsys.build.serving_cache import cache_assumptions
from simsys.build.serving_precision import followed, weights_of
from simsys.model.precision import SCALE_GROUP
from simsys.parallel.serving_memory import sequence_bytes

if TYPE_CHECKING:
    from simsys.build.serving import ServingJob


def serving_assumptions(job: ServingJob) -> list[str]:
    """Engine, precision, memory, parallelism and options of a job, a line each."""
    return [
        *_engine(job),
        *defaults_text(job.settings),
        *_precision(job),
        *_memory(job),
        *cache_assumptions(job),
        *_parallelism(job),
        *_replicas(job),
        *_options(job),
    ]


def _engine(job: ServingJob) -> Iterator[str]:
    engine = job.engine
    spec, speed = job.cluster.spec, job.cluster.spec.host_speed
    yield (
        f"engine profile {engine.name}: {_us(engine.per_layer * spec.kernel_gap)} per layer, "
        f"{_us(engine.per_step / speed)} per step, {_us(engine.per_sequence / speed)} per sequence and step"
        f"{', while the GPUs work on the step before' if job.async_scheduling else ''}"
    )
    launch = f"{_us(job.launches.per_layer_s)} a dense layer, as far as kernels are shorter"
    graphs = job.graphs
    if graphs is None:
        yield f"no CUDA graphs: the host launches kernels, {launch}"
    else:
        what = "steps" if graphs.prompts else "steps without prompts"
        size = f" of up to {graphs.max_tokens} tokens" if graphs.max_tokens else ""
        yield f"CUDA graphs for {what}{size}; else the host launches kernels, {launch}"
    if job.launches.prompt_layer_s:
        yield f"passes with prompts take {_us(job.launches.prompt_layer_s)} a dense layer besides"
    if job.hand_over_s:
        above = f"prompts of more than {job.launches.above_tokens:g} tokens together"
        yield f"{above}: {_us(job.hand_over_s)} a token to hand them to all ranks"
    yield f"API: {job.api_s * 1e3:g} ms before a request reaches the scheduler, part of TTFT"
    skew = engine.length_skew or 1.0
    yield f"decode attention over unequal sequences: {skew:g} times that over equal ones"


def _precision(job: ServingJob) -> Iterator[str]:
    weights, published, precision = (
        weights_of(job.settings, job.model),
        followed(job.settings, job.model),
        job.precision,
    )
    compute = (
        precision.plain_compute if precision.compute == "weight_only" else precision.compute.removesuffix("_block")
    )
    how = f"computed in {compute}"
    if published is not None:
        how = f"as published ({published.text}), {how}"
    elif weights in ("int8", "int4"):
        how = f"with a 16-bit scale for each {SCALE_GROUP}, {how}"
    rest = "all but routed experts" if precision.experts_only else "embedding and head"
    if precision.plain_operators:
        rest = f"embedding, head, {', '.join(sorted(precision.plain_operators))}"
    other = f"; {rest} in {precision.plain_compute}" if precision.plain_compute else ""
    yield f"weights in {weights}, {how}{other}; KV cache {precision.kv_bytes:.3g} bytes per element"


def _memory(job: ServingJob) -> Iterator[str]:
    alike = len({pool.layout.tensor for pool in job.pools}) == 1
    for pool, which in zip(job.pools, ("", "") if alike else (" for prompts", " for tokens"), strict=False):
        if alike and pool.first_rank:
            continue
        parts = f", {pool.engine_blocks} for each of {job.layout.pipeline} batches in flight"
        yield (
            f"KV cache: {pool.num_blocks} blocks of {job.settings.block_size} tokens per replica{which}"
            f"{parts * (job.layout.pipeline > 1)}, {_cache_share(job)}"
        )
    each = sequence_bytes(job.stages[job.fullest_stage])
    if each:
        yield (
            f"windows and states: {each / 2**20:.4g} MiB of a rank for each sequence, counted with its tokens, "
            f"{job.contexts.mean_tokens:,.0f} on average"
        )


def _cache_share(job: ServingJob) -> str:
    """What says how large the KV cache is."""
    settings, all_of_it = job.settings, f"{job.cluster.smallest.memory_bytes / 2**30:.4g} GiB that programs see"
    if settings.num_gpu_blocks_override is not None:
        return "as num_gpu_blocks_override says"
    if settings.kv_cache_memory_bytes is not None:
        return f"from {settings.kv_cache_memory_bytes / 2**30:.4g} GiB of each GPU, as kv_cache_memory_bytes says"
    if settings.free_gpu_memory_fraction < 1.0:
        return f"{settings.free_gpu_memory_fraction:.0%} of what all else leaves of {all_of_it}"
    return f"from {settings.gpu_memory_utilization:.0%} of {all_of_it}"


def _parallelism(job: ServingJob) -> Iterator[str]:
    given = job.config.parallelism
    yield f"collectives: {job.settings.communication_pattern}"
    if job.layout.pipeline > 1:
        sent = "a part from each rank, gathered" if given.scatter_gather and job.layout.tensor > 1 else "whole"
        yield f"pipeline: {job.layout.pipeline} stages, as many batches in flight; hidden states are sent {sent}"
    if given.ep_degree > 1:
        how = "tokens sent by all-to-all" if given.sequence_parallel else "results added up by all-reduce"
        yield f"experts: whole ones on {given.ep_degree} ranks, {how}; busiest rank {given.expert_skew:g} x the mean"
    elif job.model.experts > 1:
        yield "experts: tokens are routed independently and evenly"


def _replicas(job: ServingJob) -> Iterator[str]:
    split, scaled = job.settings.disaggregated, job.settings.autoscaling
    if split is not None:
        yield (
            f"disaggregated: prompts on {split.prefill_replicas}, tokens on {split.decode_replicas} replicas, of "
            f"{' and '.join(str(pool.layout.tensor) for pool in job.pools)} GPUs a stage; a cache is sent whole once "
            "there is room for it; what is preempted after that is computed again where it decodes, or swapped there"
        )
    if scaled is not None:
        yield (
            f"autoscaling: {scaled.min_replicas} to {scaled.max_replicas or job.layout.data} replicas, looked at "
            f"every {scaled.interval:g} s; they start in {scaled.startup:g} s, paid for; one that is not needed "
            "drains; requests stay where they were routed"
        )


def _options(job: ServingJob) -> Iterator[str]:
    drafted, lora = job.settings.speculative, job.settings.lora
    run_s = job.config.simulation.duration
    if run_s is not None:
        yield (
            f"the run ends after {run_s:g} s at the latest, without the steps under way then; "
            "figures are those of completed requests, and of all tokens until then where tokens or steps are meant"
        )
    if drafted is not None:
        by = f"by {job.draft_model.name}" if job.draft_model else f"in {_us(drafted.draft_cost or 0.0)} each"
        yield (
            f"speculative decoding: {drafted.draft_tokens} tokens drafted {by}, accepted at "
            f"{drafted.acceptance_rate:g}: {job.speculation.tokens_per_step:.4g} tokens per step on average, drawn "
            "for each sequence and step"
        )
    looks = job.settings.scheduler_recv_interval
    if looks > 1:
        yield f"new requests are seen {looks} decode steps after the last look, after prompts, and at rest"
    waits = job.settings.batch_wait_timeout_iters
    if waits:
        yield f"prompts wait {waits} decode steps for others while sequences decode, or until there are enough"
    if lora is not None:
        yield f"adapters: {lora.adapters} of rank {lora.rank}, equally popular, all on the GPU"


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.4g} us"
