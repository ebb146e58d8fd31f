"""Loads of cached prefixes from the tiers of a replica, and what waits for them.

As with vLLM's offloading connector, a request that could be scheduled first gets its blocks, and waits beside the
queue while its prefix is loaded (``load: async``). Or the step that computes the rest of its prompt waits, as with
LMCache (``load: blocking``). Or each layer of this step waits for its part, as with LMCache's ``use_layerwise`` and
SGLang's HiCache (``load: layerwise``): of L layers with computation C, a step ends when the last layer, C / L long,
has followed the last byte, or when all layers have followed the first layer's bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from simpy.events import Event

from simsys.probes import Probes
from simsys.serving.kv_prefetch import Prefetches
from simsys.serving.kv_tier import Read, Tier
from simsys.serving.run_length import grown_blocks
from simsys.serving.swap import SwapSpace
from simsys.serving.tiered_cache import Found, TieredCache

if TYPE_CHECKING:
    from simsys.platform.environment import Environment
    from simsys.serving.engine_state import EngineState
    from simsys.serving.scheduler import Scheduler
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
        self._order: dict[int, int] = {}  # in which requests were set aside
        self._count = 0
        self._beside: list[Load] = []  # of the step under way, if each layer waits
        self._began_s = 0.0

    def bind(self, engine: EngineState) -> None:
        """Loads are for this engine."""
        self._engine = engine

    def ends(self, boundary: Callable[[int], None]) -> Callable[[int], None]:
        """What is called at the end of a run of steps, in place of `boundary`."""
        return partial(self._computed, boundary) if self._layers else boundary

    def prepare(self, scheduler: Scheduler) -> None:
        """Before the policy is asked: set requests aside that it considers and that have to wait for data."""
        if self._waits and self._prefetches is None:
            return
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
        self._engine.ask_again()

    def gives_way(self, scheduler: Scheduler) -> bool:
        """Nothing can run: free the blocks of the last loaded request that waits; False if that is no help now."""
        loaded = self._cache.loaded
        if scheduler.aside or not loaded:
            return False
        self._cache.drop_load(next(reversed(loaded)))
        return True

    def copies(self) -> Event | None:
        """Start the loads of the next step; what it waits for, if it waits for all of them."""
        wanted, self._cache.to_load = self._cache.to_load, []
        if not wanted:
            return None
        all_come, self._began_s, self._beside = Event(self._env), self._env._now, []
        for request, found in wanted:
            arrived = partial(self._arrived, request, found, self._beside, all_come)
            self._beside.append(Load(self._env, self._cache, request, found, arrived))
        for load in tuple(self._beside):
            load.start()
        self._all_come = all_come
        return None if self._layers else all_come

    def _arrived(self, request: int, found: Found, loads: list[Load], all_come: Event) -> None:
        self._cache.foresee(grown_blocks(self._engine))
        self._cache.promote(request, found)
        self._report(request, found, self._began_s)
        if all(load.ended for load in loads):
            all_come.succeed()

    def _computed(self, boundary: Callable[[int], None], steps: int) -> None:
        """The layers of a step are computed as if all data had been there: wait as long as they have to."""
        loads, self._beside = self._beside, []
        if not loads:
            boundary(steps)
            return
        self._engine.pause()
        tail = partial(self._wait_for_layers, loads, self._env._now - self._began_s, boundary, steps)
        if self._all_come.triggered:
            tail(self._all_come)
        else:
            self._all_come.callbacks.append(tail)

    def _wait_for_layers(
        self, loads: list[Load], compute_s: float, boundary: Callable[[int], None], steps: int, _: Event
    ) -> None:
        """All data are there: the step ends when its layers have followed them."""
        layers, end_s = self._layers, self._env._now
        for tier, read in (part for load in loads for part in load.parts):
            seconds = read.nbytes / tier.spec.read_bytes_per_s
            came_s = read.begun_s + tier.spec.latency_s + seconds
            first_layer_s = came_s - seconds * (layers - 1) / layers
            end_s = max(end_s, came_s + compute_s / layers, first_layer_s + compute_s)

        def go_on(_: object) -> None:
            if self._engine.resumes():
                boundary(steps)

        self._env.at(end_s, go_on)

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
