"""Prefix caching: prompts with equal beginnings share KV blocks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from simsys.build.modules import routers_of
from simsys.build.rules.findings import Findings, Suggestion
from simsys.build.rules.registry import Parts, rule
from simsys.build.serving_memory import ServingMemory
from simsys.build.variants.variant import Variant, variant
from simsys.config.serving import ServingConfig
from simsys.errors import SimsysError
from simsys.framework import FRAMEWORKS, Router
from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.prefix_cache import PrefixCache
from simsys.serving.sequences import Sequences

NO_PREFIXES = "prefix caching: the workload defines no shared prefixes"


@variant
class PrefixCaching(Variant):
    """The KV cache reuses blocks of earlier prompts."""

    regime = "prefix caching"

    def on(self, settings: ServingConfig) -> bool:
        """Whether the setting or the default of the engine turns it on."""
        return bool(settings.prefix_caching)

    def in_regime(self, setup: ServingMemory) -> bool:
        """Whether prompts share prefixes."""
        return any(setup.requests.hash_ids)

    def assumptions(self, setup: ServingMemory) -> Iterator[str]:
        """The size of blocks, and the replicas with prefix caching."""
        block_tokens, id_tokens = setup.settings.block_size, setup.requests.hash_block_tokens
        pieces = "" if block_tokens == id_tokens else f", prompts known in pieces of {id_tokens} tokens"
        ids = f"blocks of {block_tokens} tokens, LRU eviction{pieces}"
        where = "" if len(setup.pools) == 1 else ", on all replicas" if decodes(setup) else ", on prefill replicas"
        yield f"prefix caching: {ids}{where}" if any(setup.requests.hash_ids) else NO_PREFIXES

    def kv_cache(self, setup: ServingMemory, pool: ServingMemory, sequences: Sequences) -> PagedKVCache | None:
        """A cache that shares blocks; None for engines that only decode and receive whole caches."""
        if pool.only_decodes and not decodes(setup):
            return None
        return PrefixCache(pool.engine_blocks, setup.settings.block_size, sequences, setup.chains)


def decodes(setup: ServingMemory) -> bool:
    """Whether decode replicas cache prefixes, too."""
    split = setup.settings.disaggregated
    return split is not None and split.decode_prefix_caching


@rule("serving.disaggregated")
def decode_replicas_cache_prefixes(parts: Parts, found: Findings) -> None:
    """Decode replicas cache prefixes only if prefill replicas do, and their router may look for them only then."""
    settings = parts.config.serving if parts.serving is None else parts.serving
    assert settings is not None
    split = settings.disaggregated
    if split is None:
        return
    path = ("serving", "disaggregated", "decode_prefix_caching")
    if split.decode_prefix_caching and settings.prefix_caching is False:
        suggestion = Suggestion([[{"serving.prefix_caching": True}]], "write {} too")
        found.error(path, "decode replicas cache prefixes, but prefix caching is off", suggestion=suggestion)
    needs = False
    with suppress(SimsysError):  # an unknown router is reported by another rule
        needs = FRAMEWORKS.get(split.decode_router, Router).needs_prefix_caching
    if needs and not split.decode_prefix_caching:
        message = f"{split.decode_router} routes by cached prefixes, but decode replicas have none"
        suggestion = Suggestion([[{".".join(path): True}]], "write {} too")
        found.error((*path[:2], "decode_router"), message, suggestion=suggestion)


@rule("serving.router")
def router_finds_what_it_looks_for(parts: Parts, found: Findings) -> None:
    """A router that routes by cached prefixes needs prefix caching."""
    settings = parts.config.serving if parts.serving is None else parts.serving
    assert settings is not None
    needs = False
    with suppress(SimsysError):  # an unknown router is reported by another rule
        needs = any(FRAMEWORKS.get(name, Router).needs_prefix_caching for name in routers_of(settings))
    if needs and settings.prefix_caching is False:
        message = f"{settings.router} routes by cached prefixes, but there are none"
        suggestion = Suggestion([[{"serving.prefix_caching": True}]], "write {} too")
        found.error(("serving", "router"), message, suggestion=suggestion)
