"""The KV cache of an engine and the host memory behind it, from a serving scenario."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.prefix_cache import PrefixCache
from simsys.serving.sequences import Sequences
from simsys.serving.swap import SwapSpace
from simsys.teams import Team

if TYPE_CHECKING:
    from simsys.build.serving import ServingJob
    from simsys.build.serving_setup import ServingSetup


NOBODY_SHARES = "prefix caching: the workload defines no shared prefixes"


def kv_cache(job: ServingJob, pool: ServingSetup, sequences: Sequences, *, decodes: bool) -> PagedKVCache:
    """The KV cache of one engine; one that only decodes is sent whole caches, and shares nothing."""
    settings = job.settings
    if settings.prefix_caching and not decodes:
        return PrefixCache(pool.engine_blocks, settings.block_size, sequences, *job.chains)
    return PagedKVCache(pool.engine_blocks, settings.block_size)


def swap_space(job: ServingSetup, team: Team) -> SwapSpace | None:
    """The host memory of one engine; None if preempted requests are computed again."""
    if job.settings.preemption != "swap":
        return None
    parts = {rank: job.block_bytes(stage) for stage, group in enumerate(team.groups) for rank in group.ranks}
    return SwapSpace(int(job.settings.swap_bytes // max(parts.values())) // job.layout.pipeline, team, parts)


def cache_assumptions(job: ServingJob) -> Iterator[str]:
    """Assumptions about prefix caching and preemption."""
    settings = job.settings
    if settings.prefix_caching:
        ids = f"block hashes of {job.requests.hash_block_tokens} tokens, LRU eviction"
        known = any(job.requests.hash_ids)
        where = ", on prefill replicas" * (settings.disaggregated is not None)
        yield f"prefix caching: {ids}{where}" if known else NOBODY_SHARES
    if settings.preemption == "swap":
        host = f"{settings.swap_bytes / 2**30:.4g} GiB of host memory per GPU over PCIe"
        yield f"preemption by swap: {host}; steps wait for copies; recomputation if full"
