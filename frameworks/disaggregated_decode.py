"""The decoding side of disaggregated serving (Zhong et al. 2024, "DistServe", §4; Patel et al. 2024, "Splitwise", §4).

A request arrives with the KV cache of its prompt, which is fetched as soon as blocks and a sequence slot are free. It
decodes from the first step after the transfer. Requests preempted here are recomputed here, in chunks.
"""

from __future__ import annotations

from typing import Any

from frameworks.chunked_prefill import ChunkedPrefill
from simsys.framework import Chunk, FetchingScheduler, register


@register("disaggregated_decode")
class DisaggregatedDecode(FetchingScheduler, ChunkedPrefill):
    """First come, first served; caches are fetched while other requests decode."""

    def schedule(self) -> list[Chunk]:
        """Continue preempted requests, and fetch caches that fit."""
        chunks = super().schedule()
        waiting, seats = self.waiting, self.options.max_num_seqs
        while waiting and waiting[0] in self.elsewhere and len(self.running) < seats and self.fetch(waiting[0]):
            pass
        return chunks

    def admit(self, request: int, tokens: int, **more: Any) -> Chunk | None:
        """Requests with a fetchable cache are not recomputed."""
        return None if request in self.elsewhere else super().admit(request, tokens, **more)

    def wants(self, request: int, tokens: int) -> bool:
        """Fetching uses no tokens of a step."""
        if request in self.elsewhere:
            return self.waiting[0] == request and len(self.running) < self.options.max_num_seqs
        return super().wants(request, tokens)
