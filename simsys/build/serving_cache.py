"""The KV cache of an engine and the host memory behind it, from a serving scenario."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from simsys.rank import Team
from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.prefix_cache import PrefixCache
from simsys.serving.sequences import Sequences
from simsys.serving.swap import SwapSpace
from simsys.teams import PipelineTeam

if TYPE_CHECKING:
    from simsys.build.serving import ServingJob


def kv_cache(job: ServingJob, sequences: Sequences) -> PagedKVCache:
    """The KV cache of one engine."""
    settings = job.settings
    if settings.prefix_caching:
        return PrefixCache(job.engine_blocks, settings.block_size, sequences, *job.chains)
    return PagedKVCache(job.engine_blocks, settings.block_size)


def swap_space(job: ServingJob, team: Team) -> SwapSpace | None:
    """The host memory of one engine; None if preempted requests are computed again."""
    if job.settings.preemption != "swap":
        return None
    groups = [group for group, _ in team.stages] if isinstance(team, PipelineTeam) else [team.group]
    parts = {rank: job.block_bytes(stage) for stage, group in enumerate(groups) for rank in group.ranks}
    return SwapSpace(int(job.settings.swap_bytes // max(parts.values())) // job.layout.pipeline, team, parts)


def cache_assumptions(job: ServingJob) -> Iterator[str]:
    """What of the cache figures rest on."""
    settings = job.settings
    if settings.prefix_caching:
        ids = f"by ids of {job.requests.hash_block_tokens} tokens, least recently used first out"
        known = any(job.requests.hash_ids)
        yield f"prefix caching: {ids}" if known else "prefix caching: the workload does not say which prompts share"
    if settings.preemption == "swap":
        each = f"{settings.swap_bytes / 2**30:.4g} GiB"
        yield f"preemption by swap: {each} of host memory per GPU, over PCIe, and steps wait; if full, recomputation"
