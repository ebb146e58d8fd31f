"""Speculative decoding: each step verifies a draft of every sequence and accepts some of it (Leviathan et al. 2023).

How much is accepted is drawn for each sequence and step, and depends on nothing but the request, how far its answer
has come, and the seed: so it is the same at every level of detail, whatever else is in the batch, and after a
preemption. The step in which a sequence has its last token is exact. Up to there, its context is taken to grow by the
same number of tokens in every step; so a run of steps costs O(1), whatever the batch.
"""

from __future__ import annotations

from heapq import heappop, heappush

from simsys.framework import DecodePhase, register
from simsys.framework import Sequences as Requests
from simsys.model.batch import NOTHING, Batch, batch_of
from simsys.model.speculation import Speculation
from simsys.serving.kv_cache import PagedKVCache

STRIDE = 7919
"""Between the draws of two requests; prime, so that all begin at different ones."""

UNIT = 1 << 20
"""Parts of a token in which means are counted, as whole numbers: sums do not depend on their order."""


@register("speculative_decode")
class SpeculativeDecode(DecodePhase):
    """One or more tokens per sequence and step.

    Args:
        sequences: The requests.
        kv: The cache that their blocks come from.
        speculation: What is drafted and how much of it is accepted; by default nothing.
        seed: The scenario's.
    """

    plain = False

    def __init__(
        self, sequences: Requests, kv: PagedKVCache, speculation: Speculation | None = None, seed: int = 0
    ) -> None:
        super().__init__(sequences, kv)
        self.speculation = speculation or Speculation()
        self.queries = self.speculation.draft_tokens + 1
        self.blocks_per_step = 1 + self.queries  # as each has one more than it may need, in blocks of a single token
        self.draws = self.speculation.draws(seed)
        self.step = 0
        self.joined: dict[int, tuple[int, int, bool]] = {}
        """By request, the step at which it joined, its units in each step, and whether it takes blocks for them."""
        self.ends: list[tuple[int, int, int]] = []  # (last step, request, step it joined): stale after a preemption
        self.cached_units = self.units_per_step = 0  # of all sequences
        self.growing = self.grown_units = self.growing_units = 0  # how many take blocks, for what, and in each step
        self.taken_blocks = 0  # for these

    def add(self, request: int) -> None:
        """The first of the remaining tokens come with the next step."""
        sequences, kv, step = self.sequences, self.kv, self.step
        so_far, cached = sequences.generated_tokens[request], sequences.computed_tokens[request]
        tokens = sequences.output_tokens[request] - so_far
        steps = self.draws.steps(request * STRIDE + so_far, tokens)
        grows = kv.held[request] * kv.block_size < cached + tokens
        heappush(self.ends, (step + steps, request, step))
        self.joined[request] = step, tokens * UNIT // steps, grows
        self._count(1, tokens * UNIT // steps, cached * UNIT, grows, 0)

    def remove(self, request: int) -> None:
        """Keep the tokens, release the cache."""
        place = request * STRIDE + self.sequences.generated_tokens[request]
        self.leave(request, self.draws.tokens(place, self.step - self.joined[request][0]))

    def steps_left(self) -> int:
        """Until the first of the heap's ends that is not stale."""
        ends = self.ends
        while True:
            last, request, step = ends[0]
            if request in self.joined and self.joined[request][0] == step:
                return last - self.step
            heappop(ends)

    def missing_blocks(self, steps: int = 1) -> int:
        """Blocks that the tokens of the next steps begin, of which each sequence has one more than it may need."""
        return self.needed_blocks(steps) - self.taken_blocks

    def needed_blocks(self, steps: int) -> int:
        """Upper bound of the blocks of growing sequences beyond their prompts after a number of steps."""
        units = self.grown_units + self.growing_units * steps
        return self.growing - (-units // (UNIT * self.kv.block_size))

    def batch_with(self, prompts: Batch) -> Batch:
        """One pass over the drafts of all sequences and prompts."""
        verified = self.speculation.verification(self.size, self.cached_tokens)
        return verified if prompts is NOTHING else prompts + verified

    def growth(self) -> Batch:
        """The mean number of tokens of all sequences, and what further drafts compute with them."""
        tokens = self.units_per_step / UNIT
        return batch_of((0.0, 0.0, 0.0, 0.0, tokens, 0.0, 0.0, 0.0, (self.queries - 1) * tokens, False))

    def finish(self, steps: int = 1) -> list[int]:
        """Accept what is due; sequences with their last token leave."""
        if self.growing and (missing := self.missing_blocks(steps)) > 0:
            if steps > 1 and self.mean_growth_log is not None:
                least, per_block = self.growing - self.taken_blocks, UNIT * self.kv.block_size
                self.mean_growth_log.extend((self.step, steps, least, self.grown_units, self.growing_units, per_block))
            self.kv.take_for_decode(missing)
            self.taken_blocks += missing
        self.step = step = self.step + steps
        self.cached_units = units = self.cached_units + self.units_per_step * steps
        self.grown_units += self.growing_units * steps
        self.cached_tokens = units / UNIT
        ends = self.ends
        if not ends or ends[0][0] > step:
            return []
        ended, sequences, all_joined = list[int](), self.sequences, self.joined
        while ends and ends[0][0] <= step:
            _, request, joined = heappop(ends)
            if request in all_joined and all_joined[request][0] == joined:
                self.leave(request, sequences.output_tokens[request] - sequences.generated_tokens[request])
                ended.append(request)
        return ended

    def leave(self, request: int, tokens: int) -> None:
        """Remove a sequence with a number of new tokens: book these and release its cache."""
        sequences, kv = self.sequences, self.kv
        step, units, grows = self.joined.pop(request)
        cached, passed = sequences.computed_tokens[request], self.step - step
        self._count(-1, -units, -cached * UNIT - units * passed, grows, -units * passed)
        sequences.generated_tokens[request] += tokens
        cached += tokens
        if grows:
            # What it took becomes its own, up to what it needs; the others keep what they may need. By chance it may
            # need more than its mean share and all free blocks: then the cache of its last tokens is lost.
            spare = self.taken_blocks - min(self.taken_blocks, self.needed_blocks(0))
            self.taken_blocks -= spare
            held = kv.held[request]
            own = min(max(0, kv.blocks_for(cached) - held), spare + kv.free_blocks)
            kv.give_back(spare - own)
            cached = min(cached, (held + own) * kv.block_size)
        kv.release(request, cached)

    def _count(self, sequences: int, units: int, cached_units: int, grows: bool, grown_units: int) -> None:
        """Count sequences that join or, below 0, leave."""
        self.size += sequences
        self.units_per_step += units
        self.cached_units += cached_units
        self.cached_tokens = self.cached_units / UNIT
        if grows:
            self.growing += sequences
            self.growing_units += units
            self.grown_units += grown_units
