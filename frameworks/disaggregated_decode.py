"""The decoding side of disaggregated serving (Zhong et al. 2024, "DistServe", §4; Patel et al. 2024, "Splitwise", §4).

A request comes with the cache of its prompt, which is fetched as soon as there are blocks and a seat for it. It
decodes from the first step on that begins when the cache is there. What is preempted here is computed again here, in
chunks.
"""

from __future__ import annotations

from typing import Any

from frameworks.chunked_prefill import ChunkedPrefill
from simsys.framework import Chunk, FetchingScheduler, register


@register("disaggregated_decode")
class DisaggregatedDecode(FetchingScheduler, ChunkedPrefill):
    """First come, first served; caches are fetched while others decode."""

    def schedule(self) -> list[Chunk]:
        """Go on with what was preempted, and fetch what fits."""
        chunks = super().schedule()
        waiting, seats = self.waiting, self.options.max_num_seqs
        while waiting and waiting[0] in self.elsewhere and len(self.running) < seats and self.fetch(waiting[0]):
            pass
        return chunks

    def admit(self, request: int, tokens: int, **more: Any) -> Chunk | None:
        """Nothing is computed whose cache can be fetched."""
        return None if request in self.elsewhere else super().admit(request, tokens, **more)

    def wants(self, request: int, tokens: int) -> bool:
        """Fetching takes no room in a step."""
        if request in self.elsewhere:
            return self.waiting[0] == request and len(self.running) < self.options.max_num_seqs
        return super().wants(request, tokens)
