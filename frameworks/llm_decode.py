"""LLM decode: every running sequence gets one token per step.

Whatever the batch, a run of steps costs O(1): how many sequences decode, the sum of their cached tokens, a heap of
the steps at which they end, and for each remainder modulo the block size how many need a new block.
"""

from __future__ import annotations

from heapq import heappop, heappush

from simsys.framework import DecodePhase, register
from simsys.framework import Sequences as Requests
from simsys.serving.kv_cache import PagedKVCache


@register("llm_decode")
class LLMDecode(DecodePhase):
    """Autoregressive decoding of a batch in lockstep."""

    def __init__(self, sequences: Requests, kv: PagedKVCache) -> None:
        super().__init__(sequences, kv)
        self.step = 0
        self.joined: dict[int, int] = {}  # request -> step at which it joined
        self.ends: list[tuple[int, int, int]] = []  # (last step, request, step it joined): stale after a preemption
        self.block_due = [0] * kv.block_size  # sequences that need a block at steps of this remainder
        self.growing = 0  # sequences that have not all their blocks yet

    def add(self, request: int) -> None:
        """The first of the remaining tokens comes with the next step."""
        sequences, step = self.sequences, self.step
        remaining = sequences.output_tokens[request] - sequences.generated_tokens[request]
        self.joined[request] = step
        self.size += 1
        self.cached_tokens += sequences.computed_tokens[request]
        self.grow(request, 1)
        heappush(self.ends, (step + remaining, request, step))

    def remove(self, request: int) -> None:
        """Keep the tokens, release the cache."""
        self.leave(request)

    def steps_left(self) -> int:
        """Until the first of the heap's ends that is not stale."""
        ends, joined = self.ends, self.joined
        while joined.get(ends[0][1]) != ends[0][2]:
            heappop(ends)
        return ends[0][0] - self.step

    def missing_blocks(self, steps: int = 1) -> int:
        """Sequences whose last block is full, in each of the steps."""
        due = self.block_due
        first = self.step % len(due)
        if steps == 1:
            return due[first]
        rounds, rest = divmod(steps, len(due))
        past = first + rest - len(due)
        missing = rounds * self.growing + sum(due[first : first + rest])
        return missing + sum(due[:past]) if past > 0 else missing

    def finish(self, steps: int = 1) -> list[int]:
        """One more token each and step; those with their last one leave."""
        if not self.size:
            return []
        self.kv.take_for_decode(self.missing_blocks(steps))
        self.cached_tokens += self.size * steps
        self.step += steps
        ended, ends = [], self.ends
        while ends and ends[0][0] <= self.step:
            _, request, joined = heappop(ends)
            if self.joined.get(request) == joined:
                self.leave(request)
                ended.append(request)
        return ended

    def leave(self, request: int) -> None:
        """Take a sequence out, with its tokens booked and its cache released."""
        self.grow(request, -1)
        sequences = self.sequences
        decoded = self.step - self.joined.pop(request)
        self.size -= 1
        sequences.generated_tokens[request] += decoded
        cached = sequences.computed_tokens[request] + decoded
        self.cached_tokens -= cached
        self.kv.release(request, cached)

    def grow(self, request: int, by: int) -> None:
        """Count a sequence among those that need blocks, unless it holds those of its last token already."""
        kv, sequences = self.kv, self.sequences
        final = sequences.prompt_tokens[request] + sequences.output_tokens[request] - 1
        if kv.held[request] * kv.block_size < final:
            # It begins a new block at steps with this remainder modulo the block size.
            remainder = (self.joined[request] - sequences.computed_tokens[request]) % kv.block_size
            self.block_due[remainder] += by
            self.growing += by
