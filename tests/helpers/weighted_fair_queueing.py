"""A user's own scheduler: weighted fair queueing over tenants (Demers et al. 1989; for LLMs, Sheng et al. 2024)."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from frameworks.chunked_prefill import ChunkedPrefill
from simsys.framework import Chunk, OrderedQueue, Queue


class WeightedFairQueueing(ChunkedPrefill):
    """Tenants share the tokens by weight, whoever sends more."""

    class Options(ChunkedPrefill.Options):
        weights: dict[str, float] = Field(default_factory=dict)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.virtual_time = 0.0
        self.last_finish: dict[str, float] = {}

    def make_queue(self) -> Queue:
        return OrderedQueue(self.finish)

    def finish(self, request: int) -> float:
        tenant = self.sequences.tenant_name(request)
        start = max(self.virtual_time, self.last_finish.get(tenant, 0.0))
        tokens = self.sequences.final_cache_tokens(request)
        self.last_finish[tenant] = start + tokens / self.options.weights.get(tenant, 1.0)
        return self.last_finish[tenant]

    def admit(self, request: int, tokens: int, **more: Any) -> Chunk | None:
        chunk = super().admit(request, tokens, **more)
        if chunk is not None:
            self.virtual_time = max(self.virtual_time, self.last_finish.get(self.sequences.tenant_name(request), 0.0))
        return chunk
