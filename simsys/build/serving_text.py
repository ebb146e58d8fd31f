"""Assumptions of a serving run, as text."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from simsys.build.resolved_serving import defaults_text
from simsys.build.serving_memory import ServingMemory
from simsys.build.serving_precision import followed, weights_of
from simsys.build.variants.variant import variants_of
from simsys.model.precision import SCALE_GROUP
from simsys.parallel.serving_memory import sequence_bytes

_PIECES = ", and in pieces, between attention kernels, for steps with prompts of up to {:g} tokens"


def serving_assumptions(job: ServingMemory) -> list[str]:
    """Engine, precision, memory, parallelism and options of a job, a line each."""
    return [
        *_engine(job),
        *(() if job.settings.passes else _launching(job)),
        *defaults_text(job.settings),
        *_precision(job),
        *_memory(job),
        *(line for each in variants_of(job.settings) for line in each.assumptions(job)),
        *_parallelism(job),
        *_duration(job),
    ]


def _engine(job: ServingMemory) -> Iterator[str]:
    engine = job.engine
    host, spec = job.host, job.cluster.spec
    layer = "" if job.settings.passes else f"{_us(engine.per_layer * spec.kernel_gap)} per layer, "
    tokens = f", {_us(host.cached_token_s)} per cached token" if host.cached_token_s else ""
    yield (
        f"engine profile {engine.name}: {layer}"
        f"{_us(host.step_s)} per step, {_us(host.sequence_s)} per sequence per step{tokens}"
        f"{', overlapped with the previous step' if job.settings.async_scheduling else ''}"
    )
    yield f"API: {job.api_s * 1e3:g} ms before a request reaches the scheduler, part of TTFT"
    server = job.settings.api_server
    if server is not None:
        each = f"{_us(server.per_request)} a request and {_us(server.per_prompt_token)} a token of its prompt"
        yield f"API server: {server.count} x {each}; waiting for it is part of the queue"


def _launching(job: ServingMemory) -> Iterator[str]:
    """What is in a measured pass: launches, graphs and unequal lengths."""
    launch = f"{_us(job.launches.per_layer_s)} of launch time per dense layer, hidden behind longer kernels"
    graphs = job.replayed
    if not graphs.decode_tokens:
        yield f"no CUDA graphs: kernels are launched eagerly, {launch}"
    else:
        alike = graphs.prompt_tokens == graphs.decode_tokens
        what = "steps" if alike else "steps without prompts"
        size = f" of up to {graphs.decode_tokens:g} tokens" if isfinite(graphs.decode_tokens) else ""
        pieces = "" if alike or not graphs.prompt_tokens else _PIECES.format(graphs.prompt_tokens)
        yield f"CUDA graphs for {what}{size}{pieces}; other steps are launched eagerly, {launch}"
    if job.launches.prompt_layer_s:
        yield f"passes with prompts: {_us(job.launches.prompt_layer_s)} more per dense layer"
    if job.host.hand_over_s:
        above = f"steps with more than {job.launches.above_tokens:g} prompt tokens"
        yield f"{above}: {_us(job.host.hand_over_s)} per token to send them to all ranks"
    skew = job.engine.length_skew or 1.0
    yield f"decode attention over sequences of unequal length: {skew:g} x the time of equal lengths"


def _precision(job: ServingMemory) -> Iterator[str]:
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


def _memory(job: ServingMemory) -> Iterator[str]:
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
            f"windows and states: {each / 2**20:.4g} MiB per rank and sequence, spread over its tokens, "
            f"{job.contexts.mean_tokens:,.0f} on average"
        )


def _cache_share(job: ServingMemory) -> str:
    """The setting that determines the size of the KV cache, as text."""
    settings, all_of_it = job.settings, f"{job.cluster.smallest.memory_bytes / 2**30:.4g} GiB of usable device memory"
    if settings.num_gpu_blocks_override is not None:
        return "set by num_gpu_blocks_override"
    if settings.kv_cache_memory_bytes is not None:
        return f"{settings.kv_cache_memory_bytes / 2**30:.4g} GiB of each GPU (kv_cache_memory_bytes)"
    if settings.free_gpu_memory_fraction < 1.0:
        return f"{settings.free_gpu_memory_fraction:.0%} of the remaining memory of {all_of_it}"
    return f"from {settings.gpu_memory_utilization:.0%} of {all_of_it}"


def _parallelism(job: ServingMemory) -> Iterator[str]:
    given = job.config.parallelism
    yield f"collectives: {job.settings.communication_pattern}"
    if job.layout.pipeline > 1:
        sent = "in parts, one per rank, and gathered" if given.scatter_gather and job.layout.tensor > 1 else "whole"
        stages = job.layout.pipeline
        yield f"pipeline: {stages} stages, {stages} batches in flight; hidden states are sent {sent}"
    for pool in job.pools:
        if pool.attention_dp > 1:
            yield from _attention(pool)
    if given.ep_degree > 1 and job.attention_dp == 1:
        how = "tokens sent by all-to-all" if given.sequence_parallel else "results summed by all-reduce"
        yield f"experts: divided among {given.ep_degree} ranks, {how}; busiest rank {job.experts.load:.4g} x the mean"
    alike = job.experts.given.identical_sequences
    if alike == 1 and given.ep_degree == job.attention_dp == 1 and job.model.experts > 1:
        yield "experts: tokens are routed independently and evenly"
    if alike > 1:
        yield f"identical sequences: {alike} use the same experts at the same time"
    padded = job.experts.given.padded_rows
    if padded > 1:
        yield f"products of experts: computed in multiples of {padded} rows for each expert, in steps of any size"


def _attention(pool: ServingMemory) -> Iterator[str]:
    """The data-parallel ranks of attention that share their experts."""
    gpus, experts = pool.layout.tensor * pool.attention_dp, pool.expert_ranks
    which = (
        ""
        if pool.settings.disaggregated is None
        else " of decode replicas"
        if pool.only_decodes
        else " of prefill replicas"
    )
    yield (
        f"attention{which}: {pool.attention_dp} data-parallel ranks of {pool.layout.tensor} GPUs, each with its own "
        "requests and KV cache; they step together, and the rank with most work decides, the same in all layers"
    )
    how = pool.experts.dispatch.replace("_", " ") if pool.experts.sends_tokens else "gathered by all GPUs"
    sent = f"{how}, dispatched in {pool.experts.given.dispatch_precision}"
    yield (
        f"experts{which}: divided among {gpus} GPUs, {experts} groups of {gpus // experts} that divide each expert; "
        f"tokens {sent}; busiest group {pool.experts.load:.4g} x the mean"
    )
    if pool.experts.products(pool.precision, pool.engine, pool.cluster.spec).by_deep_gemm:
        yield f"products of experts{which}: DeepGEMM, whose efficiency does not depend on the engine"
    given = pool.experts.given
    if given.two_batch_overlap or given.shared_experts == "overlapped":
        what = "the other half of the batch" if given.two_batch_overlap else "shared experts"
        kernel = pool.experts.kernel
        kept = f" and keeps {kernel.occupied:.0%} of each GPU" if kernel is not None else ""
        yield f"exchange{which}: overlaps with {what}{kept}, and has the time of idle links at all levels of detail"


def _duration(job: ServingMemory) -> Iterator[str]:
    run_s = job.config.simulation.duration
    if run_s is not None:
        yield (
            f"the run ends after {run_s:g} s at the latest; steps in progress then are not counted; "
            "latencies are of completed requests; tokens and steps include all up to then"
        )


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.4g} us"
