"""LLM decode: every running sequence gets one token per step.

Whatever the batch, a run of steps costs O(1): how many sequences decode, the sum of their cached tokens, a heap of
the steps at which they end, and for each remainder modulo the block size how many need a new block.
"""

from __future__ import annotations

from heapq import heappop, heappush

from simsys.framework import Sequences as Requests
from simsys.framework import register
from simsys.serving.kv_cache import PagedKVCache, blocks_due, steps_within
from simsys.serving.phases import NONE_ENDED, LockstepDecode


@register("llm_decode")
class LLMDecode(LockstepDecode):
    """Autoregressive decoding of a batch in lockstep."""

    def __init__(self, sequences: Requests, kv: PagedKVCache) -> None:
        super().__init__(sequences, kv)
        self.block_size = kv.block_size
        self.block_due = [0] * kv.block_size  # sequences that need a block at steps of this remainder

    def add(self, request: int) -> None:
        """The first of the remaining tokens comes with the next step."""
        sequences, step, size = self.sequences, self.step, self.block_size
        remainder = -1
        cached, output = sequences.computed_tokens[request], sequences.output_tokens[request]
        if self.kv.held[request] * size < sequences.prompt_tokens[request] + output - 1:
            remainder = (step - cached) % size
            self.block_due[remainder] += 1
        self.size += 1
        self.cached_tokens += cached
        # Its last field is the remainder of the steps in which it needs a block, or -1.
        self.joined[request] = entry = step + output - sequences.generated_tokens[request], request, step, remainder
        heappush(self.ends, entry)

    def remove(self, request: int) -> None:
        """Keep the tokens, release the cache."""
        self.leave(request)
        self.stale += 1
        self.forget()

    def missing_blocks(self, steps: int = 1) -> int:
        """Sequences whose last block is full, in each of the steps."""
        due = self.block_due
        if steps == 1:
            return due[self.step % self.block_size]
        return blocks_due(due, self.step, steps)

    def steps_within(self, blocks: int, most: int) -> int:
        """Until one block more is due."""
        return steps_within(self.block_due, self.step, blocks, most)

    def finish(self, steps: int = 1) -> list[int]:
        """One more token each and step; those with their last one leave."""
        begun, ends = self.step, self.ends
        due, size = self.block_due, self.block_size
        first = begun % size
        last = first + steps
        if steps == 1:
            missing = due[first]
        elif last <= size:
            missing = sum(due[first:last])
        elif steps <= size:
            missing = sum(due[first:]) + sum(due[: last - size])
        else:
            missing = blocks_due(due, begun, steps)
        if missing:
            self.kv.take_for_decode(missing)
        self.cached_tokens += self.size * steps
        self.step = step = begun + steps
        if not ends or ends[0][0] > step:
            return NONE_ENDED
        ended = []
        while ends and ends[0][0] <= step:
            request = heappop(ends)[1]
            self.leave(request)
            ended.append(request)
            if self.stale:
                self.forget()
        return ended

    def leave(self, request: int) -> None:
        """Take a sequence out, with its tokens booked and its cache released."""
        sequences, step = self.sequences, self.step
        _, _, joined, remainder = self.joined.pop(request)
        if remainder >= 0:
            self.block_due[remainder] -= 1
            growth = self.growth_log
            if growth is not None:
                growth += (remainder, joined, step)
        decoded = step - joined
        self.size -= 1
        sequences.generated_tokens[request] += decoded
        cached = sequences.computed_tokens[request] + decoded
        self.cached_tokens -= cached
        self.kv.release(request, cached)
