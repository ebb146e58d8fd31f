"""Loads of cached prefixes from the tiers of a replica, and what waits for them.

As with vLLM's offloading connector, a request that could be scheduled first gets its blocks, and waits beside the
queue while its prefix is loaded (``load: async``). Or the step that computes the rest of its prompt waits, as with
LMCache (``load: blocking``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from simpy.events import Event

from simsys.probes import Probes
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
    """

    def __init__(
        self, team: Team, cache: TieredCache, env: Environment, probes: Probes, *, waits: bool = False
    ) -> None:
        super().__init__(0, team, {})
        self._cache, self._env, self._probes, self._waits = cache, env, probes, waits
        self._order: dict[int, int] = {}  # in which requests were set aside
        self._count = 0
        self._engine: EngineState | None = None

    def bind(self, engine: EngineState) -> None:
        """Loads are for this engine."""
        self._engine = engine

    def prepare(self, scheduler: Scheduler) -> None:
        """Before the policy is asked: set requests aside that it considers and whose prefixes are to be loaded."""
        if self._waits:
            return
        while scheduler.waiting and not scheduler.preempted:
            request = next((each for each in scheduler.considers() if self._begins(each)), None)
            if request is None:
                return
            scheduler.waiting.remove(request)
            scheduler.aside[request] = None

    def _begins(self, request: int) -> bool:
        """Start to load the prefix of a request, if there is one and its blocks are free."""
        cache = self._cache
        if request in cache.loaded:
            return False
        found = cache.wanted(request)
        if found is None or not cache.begin_load(request, found):
            return False
        self._order[request] = self._count = self._count + 1
        Load(self._env, cache, request, found, partial(self._come, request, found, self._env._now))
        return True

    def _come(self, request: int, found: Found, started_s: float) -> None:
        """A prefix has been loaded: its request is the first in the queue, after those set aside before it."""
        engine = self._engine
        assert engine is not None
        self._cache.end_load(request)
        self._report(request, found, started_s)
        scheduler = engine.scheduler
        del scheduler.aside[request]
        waiting, before = scheduler.waiting, list[int]()
        order, loaded = self._order, self._cache.loaded
        while waiting and waiting[0] in loaded and order[waiting[0]] < order[request]:
            before.append(waiting.popleft())
        for each in (request, *reversed(before)):
            waiting.appendleft(each)
        engine.ask_again()

    def gives_way(self, scheduler: Scheduler) -> bool:
        """Nothing can run: free the blocks of the last loaded request that waits; False if that is no help now."""
        loaded = self._cache.loaded
        if scheduler.aside or not loaded:
            return False
        self._cache.drop_load(next(reversed(loaded)))
        return True

    def copies(self) -> Event | None:
        """Start the loads that the next step waits for; None if there are none."""
        loads, self._cache.to_load = self._cache.to_load, []
        if not loads:
            return None
        left, done = len(loads), Event(self._env)

        def come(request: int, found: Found, started_s: float) -> None:
            nonlocal left
            left -= 1
            self._cache.promote(request, found)
            self._report(request, found, started_s)
            if not left:
                done.succeed()

        for request, found in loads:
            Load(self._env, self._cache, request, found, partial(come, request, found, self._env._now))
        return done

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
    """

    env: Environment
    cache: TieredCache
    request: int
    found: Found
    come: Callable[[], None]

    def __post_init__(self) -> None:
        self._left = 0
        if self.found.written_s > self.env._now:
            self.env.at(self.found.written_s, lambda _: self._read())
        else:
            self._read()

    def _read(self) -> None:
        parts = [(tier, tokens) for tier, tokens in zip(self.cache.tiers, self.found.tokens, strict=True) if tokens]
        self._left = len(parts)
        for tier, tokens in parts:
            tier.read(tokens * (tier.spec.chunk_bytes / self.cache.chunk_tokens), self._part)

    def _part(self) -> None:
        self._left -= 1
        if not self._left:
            self.come()
