"""Part of `serving`: tiers for the KV cache below the memory of the GPUs, and how caches move between them."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from simsys.config.base import FrozenModel, invalid
from simsys.units import Bytes, BytesPerSecond, NonNegativeSeconds

TierKind = Literal["cpu", "ssd", "remote"]
Sharing = Literal["replica", "node", "cluster"]
SHARING: tuple[Sharing, ...] = ("replica", "node", "cluster")
"""From the fewest to the most replicas that share a tier."""


class KVTierConfig(FrozenModel):
    """A store for blocks of the KV cache that are not on the GPUs, as of vLLM's offloading, LMCache or Mooncake.

    `capacity` and bandwidths are those of one instance: of each replica, each node or the whole cluster, as `shared`
    says. Bandwidths are end to end, between the tier and the GPUs of a replica; reads take turns, and so do writes.
    """

    kind: TierKind = Field(description="cpu: memory of the hosts; ssd: local disks; remote: a store in the network")
    capacity: Bytes = Field(description='Size, such as "200 GiB"')
    read_bandwidth: BytesPerSecond = Field(description='Bandwidth towards the GPUs, such as "50 GB/s"')
    write_bandwidth: BytesPerSecond | None = Field(
        default=None, description="Bandwidth towards the tier; by default as read_bandwidth"
    )
    latency: NonNegativeSeconds = Field(default=0.0, description="Time before the first byte of a read or write")
    shared: Sharing | None = Field(
        default=None,
        description="Who shares an instance: the engines of a replica, of a node, or all; by default all share a "
        "remote tier, and each replica has its own of the others",
    )
    write_policy: Literal["write_through", "write_back"] = Field(
        default="write_through",
        description="Chunks are written when they are computed, or when the level above evicts them",
    )

    @property
    def sharing(self) -> Sharing:
        """Who shares an instance."""
        return self.shared or ("cluster" if self.kind == "remote" else "replica")


class KVOffloadConfig(FrozenModel):
    """How caches move between ``serving.kv_tiers`` and the GPUs; names are those of the tools that have the option.

    With `load` ``async``, a request waits while its prefix is loaded, beside the others, as with the offloading
    connector of vLLM. With ``blocking``, the step that computes the rest of its prompt waits, as with LMCache; with
    ``layerwise``, each layer of this step waits for its part only (LMCache's ``use_layerwise``, SGLang's HiCache).

    With a `prefetch_policy`, prefixes in tiers below the first one are copied to the first one while the request
    waits in the queue, as in HiCache. When the request could be scheduled, ``best_effort`` ends the copy,
    ``wait_complete`` waits for it, and ``timeout`` waits for `prefetch_timeout_base` plus
    `prefetch_timeout_per_ki_token` for every 1,024 tokens.
    """

    chunk_tokens: PositiveInt | None = Field(
        default=None,
        description="Tokens of a chunk, a multiple of block_size; by default a block, or 16 tokens if that is more "
        "(LMCache: 256)",
    )
    load: Literal["async", "blocking", "layerwise"] = Field(
        default="async", description="Who waits for a load: its request, the step, or each layer of the step"
    )
    min_retrieve_tokens: NonNegativeInt = Field(
        default=0, description="Fewest tokens to load; shorter prefixes are computed again"
    )
    save_decode_cache: bool = Field(
        default=False, description="Write the cache of generated tokens too, when a request ends"
    )
    prefetch_policy: Literal["best_effort", "wait_complete", "timeout"] | None = Field(
        default=None, description="Prefetch to the first tier while a request waits; by default none"
    )
    prefetch_threshold: NonNegativeInt = Field(default=256, description="Fewest tokens to prefetch")
    prefetch_timeout_base: NonNegativeSeconds | None = Field(
        default=None, description="Longest wait for a prefetch with the policy timeout; 1 s by default"
    )
    prefetch_timeout_per_ki_token: NonNegativeSeconds | None = Field(
        default=None, description="Longer wait for every 1,024 tokens; 0.25 s by default"
    )

    @model_validator(mode="after")
    def _timeouts_of_the_policy(self) -> Self:
        given = [name for name in ("prefetch_timeout_base", "prefetch_timeout_per_ki_token") if getattr(self, name)]
        if given and self.prefetch_policy != "timeout":
            raise invalid(f"{given[0]} is for prefetch_policy: timeout; write that too or remove {given[0]}")
        return self
