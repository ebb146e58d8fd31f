"""The scheduler of a decode replica, which continues requests with prompts processed elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

from simsys.serving.scheduler import Scheduler


class FetchingScheduler(Scheduler):
    """A scheduler for replicas that decode: subclass it and `fetch` in `schedule`."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.elsewhere: Container[int] = ()
        """Waiting requests with caches on other replicas; none unless serving is disaggregated."""
        self.start_fetch: Callable[[int], None] | None = None
        """Lets the cache of one of them come."""
        self.takes_prompts = False
        """Whether caches come while prompts are computed, so that blocks for whole prompts are taken before."""
        self.reused_tokens: dict[int, int] = {}
        """Of requests that wait for their caches, the tokens that were found here."""
        self.end_hold: Callable[[int], None] | None = None
        """Releases the cache of one of them where it is."""

    def fetch(self, request: int) -> bool:
        """Allocate blocks for the cache of a waiting request and fetch it; False if it must wait, as in `admit`.

        Tokens that are cached here are not fetched.
        """
        if self.start_fetch is None or self.preempted:
            return False
        found = self.kv.cached_tokens(request)
        if not self.kv.start(request, found, cached=found, reserve=self.tokens_of_cache(request)):
            return False
        self.reused_tokens[request] = found
        self.waiting.remove(request)
        self.running[request] = self.fetching[request] = None
        self.start_fetch(request)
        return True

    def tokens_of_cache(self, request: int) -> int:
        """Tokens of the cache of a request that comes from elsewhere."""
        sequences = self.sequences
        return sequences.prompt_tokens[request] if self.takes_prompts else sequences.computed_tokens[request]

    def forget(self, request: int) -> bool:
        """Its cache elsewhere is released, too."""
        if self.end_hold is None or request not in self.elsewhere:
            return super().forget(request)
        self.end_hold(request)
        return True

    def victim(self) -> int:
        """The running request admitted last, except requests with caches in flight."""
        return next(request for request in reversed(self.running) if request not in self.fetching)
