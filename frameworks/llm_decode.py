"""LLM decode: every running sequence gets one token per step.

Whatever the batch, a run of steps costs O(1): how many sequences decode, the sum of their cached tokens, a heap of
the steps at which they end, and for each remainder modulo the block size how many need a new block.
"""

from __future__ import annotations

from heapq import heappop, heappush

from simsys.framework import DecodePhase, register
from simsys.framework import Sequences as Requests
from simsys.serving.kv_cache import PagedKVCache, blocks_due

NOBODY: list[int] = []


@register("llm_decode")
class LLMDecode(DecodePhase):
    """Autoregressive decoding of a batch in lockstep."""

    def __init__(self, sequences: Requests, kv: PagedKVCache) -> None:
        super().__init__(sequences, kv)
        self.step = 0
        self.joined: dict[int, tuple[int, int, int, int]] = {}
        """By request: its last step, itself, the step at which it joined, and the remainder of the steps in which it
        needs a block, or -1."""
        self.ends: list[tuple[int, int, int, int]] = []
        """A heap of these; entries that `joined` no longer has are stale, since their requests were preempted."""
        self.block_size = kv.block_size
        self.block_due = [0] * kv.block_size  # sequences that need a block at steps of this remainder
        self.growing = 0  # sequences that have not all their blocks yet

    def add(self, request: int) -> None:
        """The first of the remaining tokens comes with the next step."""
        sequences, kv, step, remainder = self.sequences, self.kv, self.step, -1
        cached, output = sequences.computed_tokens[request], sequences.output_tokens[request]
        if kv.held[request] * self.block_size < sequences.prompt_tokens[request] + output - 1:
            remainder = (step - cached) % self.block_size
            self.block_due[remainder] += 1
            self.growing += 1
            if self.growth_log is not None:
                self.growth_log.append(step * self.block_size + remainder)
        self.size += 1
        self.cached_tokens += cached
        self.joined[request] = entry = step + output - sequences.generated_tokens[request], request, step, remainder
        heappush(self.ends, entry)

    def remove(self, request: int) -> None:
        """Keep the tokens, release the cache."""
        self.leave(request)

    def steps_left(self) -> int:
        """Until the first of the heap's ends that is not stale."""
        ends, joined = self.ends, self.joined
        while True:
            entry = ends[0]
            if joined.get(entry[1]) is entry:
                return entry[0] - self.step
            heappop(ends)

    def missing_blocks(self, steps: int = 1) -> int:
        """Sequences whose last block is full, in each of the steps."""
        due = self.block_due
        if steps == 1:
            return due[self.step % self.block_size]
        if not self.growing:
            return 0
        return blocks_due(due, self.step, steps, self.growing)

    def finish(self, steps: int = 1) -> list[int]:
        """One more token each and step; those with their last one leave."""
        begun, ends = self.step, self.ends
        if self.growing:
            due = self.block_due
            first = begun % self.block_size
            if steps == 1:
                missing = due[first]
            elif first + steps <= self.block_size:
                missing = sum(due[first : first + steps])
            else:
                missing = blocks_due(due, begun, steps, self.growing)
            if missing:
                self.kv.take_for_decode(missing)
        self.cached_tokens += self.size * steps
        self.step = step = begun + steps
        if not ends or ends[0][0] > step:
            return NOBODY
        ended, joined = [], self.joined
        while ends and ends[0][0] <= step:
            entry = heappop(ends)
            request = entry[1]
            if joined.get(request) is entry:
                self.leave(request)
                ended.append(request)
        return ended

    def leave(self, request: int) -> None:
        """Take a sequence out, with its tokens booked and its cache released."""
        sequences, kv, step = self.sequences, self.kv, self.step
        _, _, joined, remainder = self.joined.pop(request)
        if remainder >= 0:
            self.block_due[remainder] -= 1
            self.growing -= 1
            if self.growth_log is not None:
                self.growth_log.append(~(step * self.block_size + remainder))
        decoded = step - joined
        self.size -= 1
        sequences.generated_tokens[request] += decoded
        cached = sequences.computed_tokens[request] + decoded
        self.cached_tokens -= cached
        kv.release(request, cached)
