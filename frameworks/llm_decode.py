"""LLM decode: every running sequence gets one token per step.

Whatever the batch, a step costs O(1): how many sequences decode, the sum of their cached tokens, a heap of
the steps at which they end, and for each remainder modulo the block size how many need a new block.
"""

from __future__ import annotations

from heapq import heappop, heappush

from simsys.framework import DecodePhase, register
from simsys.framework import Sequences as Requests
from simsys.model.batch import Batch
from simsys.serving.kv_cache import PagedKVCache


@register("llm_decode")
class LLMDecode(DecodePhase):
    """Autoregressive decoding of a batch in lockstep."""

    def __init__(self, sequences: Requests, kv: PagedKVCache) -> None:
        super().__init__(sequences, kv)
        self.step = 0
        self.cached_tokens = 0
        self.joined: dict[int, int] = {}  # request -> step at which it joined
        self.ends: list[tuple[int, int, int]] = []  # (last step, request, step it joined): stale after a preemption
        self.block_due = [0] * kv.block_size  # sequences that need a block at steps of this remainder

    @property
    def size(self) -> int:
        """Sequences that decode."""
        return len(self.joined)

    def add(self, request: int) -> None:
        """The first of the remaining tokens comes with the next step."""
        remaining = self.sequences.output_tokens[request] - self.sequences.generated_tokens[request]
        self.joined[request] = self.step
        self.cached_tokens += self.sequences.computed_tokens[request]
        self.block_due[self.remainder(request)] += 1
        heappush(self.ends, (self.step + remaining, request, self.step))

    def remove(self, request: int) -> None:
        """Keep the tokens, release the cache."""
        self.leave(request)

    def missing_blocks(self) -> int:
        """Sequences whose last block is full."""
        return self.block_due[self.step % self.kv.block_size]

    def work(self) -> Batch:
        """Each sequence's new token attends to its cached tokens and to itself."""
        size = self.size
        return Batch(
            tokens=size,
            logits=size,
            decode_context_tokens=self.cached_tokens + size,
            decode_sequences=size,
        )

    def finish(self) -> list[int]:
        """One more token each; those with their last one leave."""
        if not self.joined:
            return []
        self.kv.take_for_decode(self.missing_blocks())
        self.cached_tokens += self.size
        self.step += 1
        ended = []
        while self.ends and self.ends[0][0] <= self.step:
            _, request, joined = heappop(self.ends)
            if self.joined.get(request) == joined:
                self.leave(request)
                ended.append(request)
        return ended

    def leave(self, request: int) -> None:
        """Take a sequence out, with its tokens booked and its cache released."""
        self.block_due[self.remainder(request)] -= 1
        decoded = self.step - self.joined.pop(request)
        self.sequences.generated_tokens[request] += decoded
        cached = self.sequences.computed_tokens[request] + decoded
        self.cached_tokens -= cached
        self.kv.release(request, cached)

    def remainder(self, request: int) -> int:
        """Steps modulo the block size at which this sequence begins a new block."""
        return (self.joined[request] - self.sequences.computed_tokens[request]) % self.kv.block_size
