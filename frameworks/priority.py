"""Chunked prefill by priority: the request with the smallest `priority` comes first, as in vLLM's priority scheduling.

If the next request finds no room, requests of less importance are preempted for it, the least important first; so they
are where blocks run out. Requests of the same priority come in the order of their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

from frameworks.chunked_prefill import ChunkedPrefill
from simsys.framework import Chunk, OrderedQueue, Queue, of_first_only, register


@register("priority")
class Priority(ChunkedPrefill):
    """The more important first, even where the less important have begun."""

    def make_queue(self) -> Queue:
        """In order of importance."""
        return OrderedQueue(self.rank)

    def rank(self, request: int) -> tuple[int, int]:
        """What requests are ordered by; without priorities, all are alike."""
        priority = self.sequences.priority
        return (priority[request] if priority else 0, request)

    def schedule(self) -> list[Chunk]:
        """Make room for the next request, then share out the budget."""
        while self.waiting and self.crowded_out(self.waiting[0]):
            self.preempt(self.victim())
        return super().schedule()

    def crowded_out(self, request: int) -> bool:
        """Whether a less important request holds what this one lacks."""
        if not self.running or self.importance(self.victim()) <= self.importance(request):
            return False
        tokens = self.chunk_tokens(request, self.options.max_num_batched_tokens)
        missing = self.admission_blocks(request, tokens)
        full = len(self.running) >= self.options.max_num_seqs
        return full or missing > self.kv.free_blocks - self.kv.reserved_blocks

    def repeats(self, chunks: Sequence[Chunk]) -> int:
        """While requests wait, memory may run out for them in any step."""
        return 1 if self.waiting else super().repeats(chunks)

    def importance(self, request: int) -> int:
        """The priority of a request; the lowest number is first."""
        return self.rank(request)[0]

    def victim(self) -> int:
        """The least important one."""
        return max(self.running, key=self.rank)

    @of_first_only
    def wants(self, request: int, tokens: int) -> bool:
        """Whether it is the first of the queue, which may find room or make it."""
        return self.waiting[0] == request
