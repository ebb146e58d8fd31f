"""Tiers of the KV cache below the GPUs: vLLM's offloading connector, LMCache, Mooncake's store, SGLang's HiCache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from math import inf

from simsys.build.rules.findings import Findings, Suggestion
from simsys.build.rules.registry import Parts, rule
from simsys.build.serving_memory import ServingMemory
from simsys.build.variants.variant import Variant, attends_in_parallel, variant, variants_of
from simsys.config.kv_tiers import SHARING, KVOffloadConfig, KVTierConfig
from simsys.config.serving import ServingConfig
from simsys.errors import SimsysError
from simsys.executors.executor import Executor
from simsys.framework import FRAMEWORKS, Router
from simsys.serving.kv_connector import KVConnector, Offload
from simsys.serving.kv_prefetch import PrefetchPolicy
from simsys.serving.kv_tier import TierSpec
from simsys.sums import ordered_sum
from simsys.units import pretty_memory

TIERS, OFFLOAD = ("serving", "kv_tiers"), ("serving", "kv_offload")
LEAST_CHUNK = 16
"""Tokens of a chunk by default, unless a block has more: the default block of vLLM."""


@variant
class KVTiers(Variant):
    """Prefixes that the GPUs have evicted are loaded from tiers below them."""

    place = TIERS
    regime = "KV tiers"

    def on(self, settings: ServingConfig) -> bool:
        """Whether tiers are given."""
        return settings.kv_tiers is not None

    def assumptions(self, setup: ServingMemory) -> Iterator[str]:
        """The tiers, and how caches move."""
        settings = setup.settings
        offload, token_bytes = settings.kv_offload or KVOffloadConfig(), replica_token_bytes(setup.pools[0])
        for tier in settings.kv_tiers or ():
            holds = f"{int(tier.capacity // token_bytes):,} tokens"
            yield (
                f"KV tier {tier.kind}: {pretty_memory(tier.capacity)} ({holds}) per {tier.sharing}, "
                f"{tier.write_policy}, LRU eviction; reads take turns, and so do writes"
            )
        waits = {"async": "its request", "blocking": "the step", "layerwise": "each layer of the step"}[offload.load]
        yield (
            f"KV tiers hold chunks of {chunk_tokens(settings)} tokens; a cached prefix is always loaded, and {waits} "
            "waits for it; chunks in flight do not hinder steps"
        )

    def connector(self, setup: ServingMemory, executor: Executor) -> KVConnector:
        """All tiers of the run."""
        settings, pool, size = setup.settings, setup.pools[0], chunk_tokens(setup.settings)
        offload, chunk_bytes = settings.kv_offload or KVOffloadConfig(), size * replica_token_bytes(pool)
        specs = [_spec(each, chunk_bytes) for each in settings.kv_tiers or ()]
        moves = Offload(
            chunk_tokens=size,
            waits=offload.load != "async",
            layers=setup.model.num_layers if offload.load == "layerwise" else 0,
            least_tokens=offload.min_retrieve_tokens,
            decodes=offload.save_decode_cache,
            prefetch=_prefetch(offload),
        )
        nodes = setup.cluster.gpus_per_node
        made = KVConnector(specs, moves, executor.env, executor.probes, nodes, setup.chains)
        executor.at_result(made.flush)
        return made


def chunk_tokens(settings: ServingConfig) -> int:
    """Tokens of a chunk."""
    given, block = settings.kv_offload, settings.block_size or 1
    if given is not None and given.chunk_tokens is not None:
        return given.chunk_tokens
    return -(-LEAST_CHUNK // block) * block


def replica_token_bytes(pool: ServingMemory) -> float:
    """Bytes of a token's cache on all GPUs of an engine together: what its workers write, each its own part."""
    return ordered_sum(pool.token_bytes(stage) * pool.layout.tensor for stage in pool.stage_numbers)


def _prefetch(given: KVOffloadConfig) -> PrefetchPolicy | None:
    """How long requests wait for prefetches; defaults of the timeout as in SGLang's HiCache."""
    base, more = given.prefetch_timeout_base, given.prefetch_timeout_per_ki_token
    waits_s = {"best_effort": 0.0, "wait_complete": inf, "timeout": 1.0 if base is None else base}
    if given.prefetch_policy is None:
        return None
    per_token_s = (0.25 if more is None else more) / 1024 if given.prefetch_policy == "timeout" else 0.0
    return PrefetchPolicy(given.prefetch_threshold, waits_s[given.prefetch_policy], per_token_s)


def _spec(given: KVTierConfig, chunk_bytes: float) -> TierSpec:
    return TierSpec(
        kind=given.kind,
        chunks=int(given.capacity // chunk_bytes),
        chunk_bytes=chunk_bytes,
        read_bytes_per_s=given.read_bandwidth,
        write_bytes_per_s=given.write_bandwidth or given.read_bandwidth,
        latency_s=given.latency,
        shared=given.sharing,
        writes_back=given.write_policy == "write_back",
    )


@rule("serving.kv_tiers")
def offload_needs_tiers(parts: Parts, found: Findings) -> None:
    """Settings of tiers need tiers."""
    given = parts.config.serving
    assert given is not None
    if given.kv_offload is not None and given.kv_tiers is None:
        found.error(OFFLOAD, "there are no tiers to move caches to; write kv_tiers too or remove kv_offload")


@rule("serving.kv_tiers")
def order_of_tiers(parts: Parts, found: Findings) -> None:
    """Tiers are of different kinds, a lower one is shared by more, and write-backs stay within a replica."""
    tiers = parts.config.serving.kv_tiers if parts.config.serving is not None else None
    for place, (upper, lower) in enumerate(pairwise(tiers or []), start=1):
        if any(lower.kind == each.kind for each in (tiers or [])[:place]):
            found.error((*TIERS, place, "kind"), f"there are two tiers of kind {lower.kind}; give each kind once")
        if SHARING.index(lower.sharing) < SHARING.index(upper.sharing):
            message = (
                f"a tier per {lower.sharing} is below one per {upper.sharing}; tiers further down are shared by more"
            )
            edit = {f"serving.kv_tiers[{place}].shared": upper.sharing}
            found.error((*TIERS, place), message, suggestion=Suggestion([[edit]], "write {}"))
    for place, tier in enumerate(tiers or []):
        if tier.write_policy == "write_back" and tier.sharing != "replica" and tiers and _from_gpus(tiers, place):
            found.error(
                (*TIERS, place, "write_policy"),
                f"write_back from GPUs to a tier that a {tier.sharing} shares is not modelled; write write_through, "
                "or shared: replica",
            )


def _from_gpus(tiers: Sequence[KVTierConfig], place: int) -> bool:
    """Whether evictions of the GPUs reach a tier through write-backs alone."""
    return all(each.write_policy == "write_back" for each in tiers[: place + 1])


@rule("serving.kv_tiers")
def with_other_features(parts: Parts, found: Findings) -> None:
    """Tiers extend a prefix cache, and are not available with some other features."""
    config, settings = parts.config, parts.config.serving if parts.serving is None else parts.serving
    assert settings is not None
    if settings.kv_tiers is None:
        return
    if settings.prefix_caching is False:
        suggestion = Suggestion([[{"serving.prefix_caching": True}]], "write {} too")
        found.error(TIERS, "tiers hold cached prefixes, but prefix caching is off", suggestion=suggestion)
    if config.parallelism.pp_stages > 1:
        found.error(TIERS, "kv_tiers with pp_stages is not available; remove one of them")
    for each in variants_of(settings):
        if each.without_tiers:
            found.error(TIERS, f"kv_tiers with {each.without_tiers[-1]} is not available; remove one of them")
    if settings.drafted and settings.kv_tiers[0].write_policy == "write_back":
        message = "write_back from GPUs with drafted tokens is not modelled; write write_through, or remove drafts"
        found.error((*TIERS, 0, "write_policy"), message)
    shares = False
    with suppress(SimsysError):  # an unknown router is reported by another rule
        shares = FRAMEWORKS.get(settings.router, Router).shares_queue
    if shares:
        found.error(TIERS, f"kv_tiers with router {settings.router} is not available; remove one of them")
    offload = settings.kv_offload or KVOffloadConfig()
    if offload.prefetch_policy is not None:
        if len(settings.kv_tiers) == 1:
            found.error((*OFFLOAD, "prefetch_policy"), "there is no tier below the first one to prefetch from")
        if any(type(each).intake is not Variant.intake for each in variants_of(settings)):
            message = "prefetches with a setting that lets prompts wait are not available; remove one of them"
            found.error((*OFFLOAD, "prefetch_policy"), message)
    load = offload.load
    if load != "async" and attends_in_parallel(config):
        found.error((*OFFLOAD, "load"), f"load: {load} with attention_dp is not available; write async")


@rule("serving.kv_tiers", when_sound=True)
def chunks_fit(parts: Parts, found: Findings) -> None:
    """A chunk is a number of blocks, and each tier holds one; a node's tier is on one node."""
    settings = parts.serving
    if settings is None or settings.kv_tiers is None or parts.cluster is None or parts.model is None:
        return
    size, block = chunk_tokens(settings), settings.block_size
    if size % block:
        groups = [[{"serving.kv_offload.chunk_tokens": -(-size // block) * block}]]
        message = f"a chunk of {size} tokens is not a whole number of blocks of {block} tokens"
        found.error((*OFFLOAD, "chunk_tokens"), message, suggestion=Suggestion(groups, "write {}"))
        return
    assert parts.engine is not None
    setup = ServingMemory.of(parts.config, settings, parts.cluster, parts.model, parts.engine, parts.draft)
    pool, gpus = setup.pools[0], parts.cluster.gpus_per_node
    chunk_bytes = size * replica_token_bytes(pool)
    for place, tier in enumerate(settings.kv_tiers):
        if tier.capacity < chunk_bytes:
            message = f"a chunk of {size} tokens has {pretty_memory(chunk_bytes)}, more than the tier holds"
            found.error((*TIERS, place, "capacity"), message)
        if tier.sharing == "node" and (pool.layout.tensor > gpus or gpus % pool.layout.tensor):
            message = f"replicas of {pool.layout.tensor} GPUs are not on one node of {gpus} GPUs each"
            found.error((*TIERS, place, "shared"), f"{message}; write replica or cluster")
