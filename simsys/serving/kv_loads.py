"""Loads of cached prefixes from the tiers of a replica, and what waits for them.

As with vLLM's offloading connector, a request that could be scheduled first gets its blocks, and waits beside the
queue while its prefix is loaded (``load: async``). Or the step that computes the rest of its prompt waits, as with
LMCache (``load: blocking``). Or each layer of this step waits for its part, as with LMCache's ``use_layerwise`` and
SGLang's HiCache (``load: layerwise``): of L layers with computation C and transfer T, the time T - C (L - 1) / L stays
visible, at least that of the first layer's part, T / L. It passes before the step, so that no layer waits later on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from simpy.events import Event

from simsys.probes import Probes
from simsys.serving.kv_prefetch import Prefetches
from simsys.serving.kv_tier import Read, Tier
from simsys.serving.phases import Chunk, PrefillPhase
from simsys.serving.run_length import grown_blocks
from simsys.serving.swap import SwapSpace
from simsys.serving.tiered_cache import Found, TieredCache

if TYPE_CHECKING:
    from simsys.platform.environment import Environment
    from simsys.serving.leaving import Leaving
    from simsys.teams import Team


class KVLoads(SwapSpace):
    """Starts loads, and returns requests to the queue when their prefixes have come.

    It is a swap space without blocks: preempted requests are computed again, or found in the caches.

    Args:
        team: The ranks.
        cache: The KV cache with its tiers.
        env: The environment.
        probes: Observers.
        waits: Whether steps wait for loads, in place of requests.
        layers: Layers of a step, each of which waits for its part of a load; 0 if a step waits for all of it.
        prefetches: Copies to the first tier while requests wait, if there are any.
    """

    def __init__(
        self,
        team: Team,
        cache: TieredCache,
        env: Environment,
        probes: Probes,
        *,
        waits: bool = False,
        layers: int = 0,
        prefetches: Prefetches | None = None,
    ) -> None:
        super().__init__(0, team, {})
        self._cache, self._env, self._probes = cache, env, probes
        self._waits, self._layers, self._prefetches = waits, layers, prefetches
        self.prefill: PrefillPhase | None = None
        """What says how much a step has to compute."""
        self._order: dict[int, int] = {}  # in which requests were set aside
        self._count = 0

    def bind(self, engine: Leaving) -> None:
        """Loads are for this engine."""
        self._engine = engine

    def prepare(self) -> None:
        """Before the policy is asked: set requests aside that it considers and that have to wait for data."""
        if self._waits and self._prefetches is None:
            return
        scheduler = self._engine.scheduler
        while scheduler.waiting and not scheduler.preempted:
            request = next((each for each in scheduler.considers() if self._begins(each)), None)
            if request is None:
                return
            scheduler.waiting.remove(request)
            scheduler.aside[request] = None
            self._order[request] = self._count = self._count + 1

    def _begins(self, request: int) -> bool:
        """Let a request wait for its prefix, if there is one and its blocks are free; False if it need not wait."""
        cache, prefetches = self._cache, self._prefetches
        if request in cache.loaded:
            return False
        if prefetches is not None and request in prefetches:
            if prefetches.waits_for(request, partial(self._return, request)):
                return True
            if not cache.has_room_for(request):
                return False
            prefetches.end(request)
        found = None if self._waits else cache.wanted(request)
        if found is None or not cache.begin_load(request, found):
            return False
        Load(self._env, cache, request, found, partial(self._come, request, found, self._env._now)).start()
        return True

    def _come(self, request: int, found: Found, started_s: float) -> None:
        """A prefix has been loaded."""
        self._cache.foresee(grown_blocks(self._engine))  # what steps of the run under way have evicted comes first
        self._cache.end_load(request)
        self._report(request, found, started_s)
        self._return(request)

    def _return(self, request: int) -> None:
        """A request that was set aside is the first in the queue, after those set aside before it."""
        scheduler, order, returned = self._engine.scheduler, self._order, self._cache.returned
        del scheduler.aside[request]
        returned[request] = None
        waiting, before = scheduler.waiting, list[int]()
        while waiting and waiting[0] in returned and order[waiting[0]] < order[request]:
            before.append(waiting.popleft())
        for each in (request, *reversed(before)):
            waiting.appendleft(each)
        if request in self._engine.leaving:
            self._engine.cancel(request, self._engine.leaving.pop(request))
        self._engine.ask_again()

    def forget(self, request: int) -> None:
        """The client of a waiting request has given up: free its blocks, and end its prefetch."""
        cache = self._cache
        cache.returned.pop(request, None)
        if request in cache.loaded:
            cache.foresee(grown_blocks(self._engine))
            cache.drop_load(request)
            self._engine.ask_again()  # others may need these blocks
        if self._prefetches is not None and request in self._prefetches:
            self._prefetches.end(request)

    def gives_way(self) -> bool:
        """Nothing can run: free the blocks of the last loaded request that waits; False if that is no help now."""
        loaded = self._cache.loaded
        if self._engine.scheduler.aside or not loaded:
            return False
        self._cache.drop_load(next(reversed(loaded)))
        return True

    def copies(self, chunks: Sequence[tuple[int, int]]) -> Event | None:
        """Start the loads of the next step; what its start waits for, or None."""
        wanted, self._cache.to_load = self._cache.to_load, []
        if not wanted:
            return None
        all_come, loads = Event(self._env), list[Load]()
        for request, found in wanted:
            arrived = partial(self._arrived, request, found, self._env._now, loads, all_come)
            loads.append(Load(self._env, self._cache, request, found, arrived))
        for load in loads:
            load.start()
        return all_come if not self._layers else self._layers_wait(loads, all_come, chunks)

    def _arrived(self, request: int, found: Found, started_s: float, loads: list[Load], all_come: Event) -> None:
        self._cache.foresee(grown_blocks(self._engine))
        self._cache.promote(request, found)
        self._report(request, found, started_s)
        if all(load.ended for load in loads):
            all_come.succeed()

    def _layers_wait(self, loads: Sequence[Load], all_come: Event, chunks: Sequence[tuple[int, int]]) -> Event | None:
        """When the step is to begin so that no layer has to wait later on; None for now."""
        if not all(load.parts for load in loads):  # a chunk is not written yet, so that it is not known when it comes
            return all_come
        assert self.prefill is not None
        scheduler, layers, starts_s = self._engine.scheduler, self._layers, self._env._now
        batch = self.prefill.work([Chunk(*each) for each in chunks])
        compute_s = self._team.pass_s(scheduler.decode.batch_with(batch) if scheduler.mixes else batch)
        for tier, read in (part for load in loads for part in load.parts):
            comes_s, hidden = tier.reads.comes_s(read), (layers - 1) / layers
            starts_s = max(starts_s, comes_s - tier.reads.seconds(read) * hidden, comes_s - compute_s * hidden)
        return self._env.at(starts_s) if starts_s > self._env._now else None

    def _report(self, request: int, found: Found, started_s: float) -> None:
        parts = zip(self._cache.tiers, found.tokens, strict=True)
        by_kind = {tier.spec.kind: tokens for tier, tokens in parts if tokens}
        for hook in self._probes.kv_loaded:
            hook(request, by_kind, started_s, self._env._now)


@dataclass
class Load:
    """One load: its parts come from different tiers at the same time, once they are written there.

    Args:
        env: The environment.
        cache: The KV cache with its tiers.
        request: The request.
        found: What is loaded.
        come: Called when all of it has come.
        parts: Reads under way or ended, with their tiers.
    """

    env: Environment
    cache: TieredCache
    request: int
    found: Found
    come: Callable[[], None]
    parts: list[tuple[Tier, Read]] = field(default_factory=list)

    def start(self) -> None:
        """Begin to read."""
        if self.found.written_s > self.env._now:
            self.env.at(self.found.written_s, lambda _: self._read())
        else:
            self._read()

    @property
    def ended(self) -> bool:
        """Whether all of it has come."""
        return bool(self.parts) and all(read.ended for _, read in self.parts)

    def _read(self) -> None:
        for tier, tokens in zip(self.cache.tiers, self.found.tokens, strict=True):
            if tokens:
                nbytes = tokens * (tier.spec.chunk_bytes / self.cache.chunk_tokens)
                self.parts.append((tier, tier.read(nbytes, self._part)))

    def _part(self) -> None:
        if self.ended:
            self.come()
