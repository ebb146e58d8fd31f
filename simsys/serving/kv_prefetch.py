"""Prefetches: cached prefixes are copied from lower tiers to the first one while their requests wait in the queue.

As SGLang's HiCache does from storage (L3) to the host (L2): a prefetch begins when a request arrives, if it has enough
tokens. When the request could be scheduled, the policy says how long it waits (``hicache_storage_prefetch_policy``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from simsys.serving.intake import Intake
from simsys.serving.kv_tier import Read, Tier
from simsys.serving.run_length import grown_blocks
from simsys.serving.tiered_cache import Found, TieredCache

if TYPE_CHECKING:
    from simsys.platform.environment import Environment


@dataclass(frozen=True)
class PrefetchPolicy:
    """How long a request waits for its prefetch when it could be scheduled.

    Args:
        least_tokens: Fewest tokens to prefetch.
        base_s: Longest time from the start of the prefetch; 0 to end it at once, infinity to wait for all of it.
        per_token_s: Longer time for each token.
    """

    least_tokens: int = 256
    base_s: float = 0.0
    per_token_s: float = 0.0


class Prefetch:
    """One prefetch.

    Args:
        found: What tiers held when the request arrived.
        started_s: Its start.
        until_s: When its request no longer waits for it.
    """

    def __init__(self, found: Found, started_s: float, until_s: float) -> None:
        self.found, self.started_s, self.until_s = found, started_s, until_s
        self.reads: list[tuple[Tier, Read]] = []
        self.ended = False
        self.then: Callable[[], None] | None = None
        """Called at its end, if a request waits for it."""


class Prefetches(Intake):
    """The prefetches of an engine; requests pass at once.

    Args:
        cache: The KV cache with its tiers.
        env: The environment.
        policy: How long requests wait.
    """

    def __init__(self, cache: TieredCache, env: Environment, policy: PrefetchPolicy) -> None:
        super().__init__()
        self._cache, self._env, self._policy = cache, env, policy
        self._under_way: dict[int, Prefetch] = {}

    def __contains__(self, request: int) -> bool:
        return request in self._under_way

    def passes(self, request: int) -> bool:
        """Begin to prefetch; the request need not wait here."""
        cache, policy, now_s = self._cache, self._policy, self._env._now
        cache.foresee(grown_blocks(self.engine))
        found = cache.look_up(request, len(cache.tiers))
        tokens = sum(found.tokens[1:])
        if tokens and tokens >= policy.least_tokens:
            until_s = now_s + policy.base_s + policy.per_token_s * tokens
            prefetch = self._under_way[request] = Prefetch(found, now_s, until_s)
            if found.written_s > now_s:
                self._env.at(found.written_s, lambda _: self._read(request, prefetch))
            else:
                self._read(request, prefetch)
        return True

    def ran(self, steps: int, *, prompts: bool) -> None:
        """Steps do not matter."""

    def _read(self, request: int, prefetch: Prefetch) -> None:
        if prefetch.ended:
            return
        for tier, tokens in zip(self._cache.tiers[1:], prefetch.found.tokens[1:], strict=True):
            if tokens:
                nbytes = tokens * (tier.spec.chunk_bytes / self._cache.chunk_tokens)
                prefetch.reads.append((tier, tier.read(nbytes, lambda: self._part(request, prefetch))))

    def _part(self, request: int, prefetch: Prefetch) -> None:
        if all(read.ended for _, read in prefetch.reads):
            self._finish(request, prefetch, prefetch.found.until)

    def waits_for(self, request: int, then: Callable[[], None]) -> bool:
        """Whether a request that could be scheduled waits for its prefetch; `then` is called when it ends."""
        prefetch = self._under_way[request]
        if prefetch.until_s <= self._env._now:
            return False
        prefetch.then = then
        if prefetch.until_s < inf:
            self._env.at(prefetch.until_s, lambda _: self._time_out(request, prefetch))
        return True

    def _time_out(self, request: int, prefetch: Prefetch) -> None:
        if not prefetch.ended:
            self.end(request)

    def end(self, request: int) -> None:
        """End a prefetch now, with the whole chunks that have come."""
        prefetch, came, size = self._under_way[request], 0.0, self._cache.chunk_tokens
        prefetch.ended = True
        for tier, read in prefetch.reads:
            tokens = size / tier.spec.chunk_bytes
            came += (read.nbytes if read.ended else tier.cancel(read)) * tokens
        held = prefetch.found.cached + prefetch.found.tokens[0]
        self._finish(request, prefetch, held + int(came + 1e-6))

    def _finish(self, request: int, prefetch: Prefetch, until: int) -> None:
        """The first tokens up to `until` are in the first tier."""
        prefetch.ended = True
        del self._under_way[request]
        self._cache.foresee(grown_blocks(self.engine))
        self._cache.tiers[0].take_promoted(self._cache.keys(request, until))
        if prefetch.then is not None:
            prefetch.then()
