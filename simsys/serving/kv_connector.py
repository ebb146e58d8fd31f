"""The connector between the engines of a run and their tiers of KV cache: who shares which, and what is written when.

Of each tier there is one instance for every engine, for every node, or for all, as with LMCache (local CPU and disk of
an instance, remote stores of all) and SGLang's HiCache (L1 and L2 private, L3 shared).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simsys.model.batch import Batch
from simsys.platform.environment import Environment
from simsys.probes import Probes
from simsys.serving.kv_loads import KVLoads
from simsys.serving.kv_prefetch import Prefetches, PrefetchPolicy
from simsys.serving.kv_tier import Tier, TierSpec
from simsys.serving.phases import Chunk, PrefillPhase
from simsys.serving.prefix_cache import Chains
from simsys.serving.scheduler import Scheduler
from simsys.serving.sequences import Sequences
from simsys.serving.tiered_cache import TieredCache
from simsys.teams import Team


@dataclass(frozen=True)
class Offload:
    """How caches move.

    Args:
        chunk_tokens: Tokens of a chunk.
        waits: Whether the step waits for a load, not its request alone.
        layers: Layers of a step, each of which waits for its part; 0 if a step waits for all of it.
        least_tokens: Fewest tokens to load.
        decodes: Whether the cache of generated tokens is written.
        prefetch: How long requests wait for prefetches; None without prefetches.
    """

    chunk_tokens: int
    waits: bool = False
    layers: int = 0
    least_tokens: int = 0
    decodes: bool = False
    prefetch: PrefetchPolicy | None = None


class StoringPrefill(PrefillPhase):
    """A prefill phase whose whole chunks are written to tiers when they are computed.

    Args:
        prefill: The phase.
        cache: The KV cache with its tiers.
    """

    def __init__(self, prefill: PrefillPhase, cache: TieredCache) -> None:
        super().__init__(prefill.sequences)
        self._prefill, self._cache = prefill, cache

    def work(self, chunks: Sequence[Chunk]) -> Batch:
        """As of the phase."""
        return self._prefill.work(chunks)

    def finish(self, chunks: Sequence[Chunk], steps: int = 1) -> list[int]:
        """Book the chunks, and write what they complete."""
        complete, computed = self._prefill.finish(chunks, steps), self.sequences.computed_tokens
        for request, _ in chunks:
            self._cache.store(request, computed[request])
        return complete


@dataclass(frozen=True)
class Attached:
    """An engine's part of the connector.

    Args:
        cache: Its KV cache.
        loads: Its loads.
        intake: Its prefetches, if there are any.
    """

    cache: TieredCache
    loads: KVLoads
    intake: Prefetches | None

    def serve(self, scheduler: Scheduler) -> None:
        """Store what this scheduler's prompts compute, and load what they find."""
        self.loads.prefill = scheduler.prefill
        scheduler.prefill, scheduler.swap = StoringPrefill(scheduler.prefill, self.cache), self.loads


class KVConnector:
    """All tiers of a run.

    Args:
        specs: The tiers, the fastest one first.
        offload: How caches move.
        env: The environment.
        probes: Observers.
        gpus_per_node: Consecutive ranks on a node.
        chains: Ids of the blocks of the requests.
    """

    def __init__(
        self,
        specs: Sequence[TierSpec],
        offload: Offload,
        env: Environment,
        probes: Probes,
        gpus_per_node: int,
        chains: Chains,
    ) -> None:
        self._specs, self._offload, self._env, self._probes = specs, offload, env, probes
        self._gpus_per_node, self._chains = gpus_per_node, chains
        self._made: dict[tuple[int, int], Tier] = {}
        self._caches: list[TieredCache] = []

    def attach(self, num_blocks: int, block_size: int, sequences: Sequences, team: Team) -> Attached:
        """Make the part of an engine.

        Args:
            num_blocks: Blocks on its GPUs.
            block_size: Tokens of a block.
            sequences: The sequences.
            team: Its ranks.
        """
        offload, tiers = self._offload, self._tiers_of(team.group.ranks[0])
        cache = TieredCache(
            num_blocks,
            block_size,
            sequences,
            self._chains,
            tiers=tiers,
            chunk_tokens=offload.chunk_tokens,
            depth=len(tiers) if offload.prefetch is None else 1,
            least_tokens=offload.least_tokens,
            at_once=offload.waits,
            decodes=offload.decodes,
        )
        self._caches.append(cache)
        prefetches = None if offload.prefetch is None else Prefetches(cache, self._env, offload.prefetch)
        parts = team, cache, self._env, self._probes
        loads = KVLoads(*parts, waits=offload.waits, layers=offload.layers, prefetches=prefetches)
        return Attached(cache, loads, prefetches)

    def flush(self) -> None:
        """The run ends: write back what GPUs have evicted."""
        for cache in self._caches:
            cache.foresee(0)

    def _tiers_of(self, rank: int) -> list[Tier]:
        """The tiers of the engine with this first rank."""
        sharers = {"replica": rank, "node": rank // self._gpus_per_node, "cluster": 0}
        tiers: list[Tier] = []
        for place in reversed(range(len(self._specs))):
            spec = self._specs[place]
            key = place, sharers[spec.shared]
            if key not in self._made:
                self._made[key] = Tier(spec, self._env, tiers[0] if tiers else None, self._probes.kv_moved)
            tiers.insert(0, self._made[key])
        return tiers
