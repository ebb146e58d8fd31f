"""Speculative decoding: each step verifies a draft of every sequence and accepts some of it (Leviathan et al. 2023).

How much is accepted is drawn for each sequence and step, and depends on nothing but the request, how far its answer
has come, and the seed: so it is the same at every level of detail, whatever else is in the batch, and after a
preemption. The step in which a sequence has its last token is exact. Up to there, its context is taken to grow by the
same number of tokens in every step; so a run of steps costs O(1), whatever the batch.
"""

from __future__ import annotations

from heapq import heappop, heappush

from simsys.framework import Sequences as Requests
from simsys.framework import register
from simsys.model.batch import Batch, batch_of
from simsys.model.speculation import Speculation
from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.phases import NONE_ENDED, LockstepDecode

STRIDE = 7919
"""Between the draws of two requests; prime, so that all begin at different ones."""

UNIT = 1 << 20
"""Parts of a token in which means are counted, as whole numbers: sums do not depend on their order."""


@register("speculative_decode")
class SpeculativeDecode(LockstepDecode):
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
        self.units_per_block = UNIT * kv.block_size
        self.cached_units = self.units_per_step = 0  # of all sequences
        self.growing = self.grown_units = self.growing_units = 0  # how many take blocks, for what, and in each step
        self.taken_blocks = 0  # for these

    def add(self, request: int) -> None:
        """The first of the remaining tokens come with the next step."""
        sequences, kv, step = self.sequences, self.kv, self.step
        so_far, cached = sequences.generated_tokens[request], sequences.computed_tokens[request]
        tokens = sequences.output_tokens[request] - so_far
        steps = self.draws.steps(request * STRIDE + so_far, tokens)
        units = tokens * UNIT // steps
        grows = kv.held[request] * kv.block_size < cached + tokens
        # Its last fields are its units in each step, and whether it takes blocks for them.
        self.joined[request] = entry = step + steps, request, step, units, grows
        heappush(self.ends, entry)
        self.size += 1
        self.units_per_step += units
        self.cached_units += cached * UNIT
        self.cached_tokens = self.cached_units / UNIT
        if grows:
            self.growing += 1
            self.growing_units += units

    def remove(self, request: int) -> None:
        """Keep the tokens, release the cache."""
        place = request * STRIDE + self.sequences.generated_tokens[request]
        self.leave(request, self.draws.tokens(place, self.step - self.joined[request][2]))
        self.stale += 1
        self.forget()

    def missing_blocks(self, steps: int = 1) -> int:
        """Blocks that the tokens of the next steps begin, of which each sequence has one more than it may need."""
        units = self.grown_units + self.growing_units * steps
        return self.growing - (-units // self.units_per_block) - self.taken_blocks

    def batch_with(self, prompts: Batch) -> Batch:
        """One pass over the drafts of all sequences and prompts."""
        return self.speculation.verification(self.size, self.cached_tokens, prompts)

    def growth(self) -> Batch:
        """The mean number of tokens of all sequences, and what further drafts compute with them."""
        tokens = self.units_per_step / UNIT
        return batch_of((0.0, 0.0, 0.0, 0.0, tokens, 0.0, 0.0, 0.0, (self.queries - 1) * tokens, False))

    def finish(self, steps: int = 1) -> list[int]:
        """Accept what is due; sequences with their last token leave."""
        begun, ends = self.step, self.ends
        if self.growing:
            missing = self.missing_blocks(steps)
            if missing > 0:
                log = self.mean_growth_log
                if log is not None and steps > 1:
                    least = self.growing - self.taken_blocks
                    log += (begun, steps, least, self.grown_units, self.growing_units, self.units_per_block)
                self.kv.take_for_decode(missing)
                self.taken_blocks += missing
            self.grown_units += self.growing_units * steps
        self.step = step = begun + steps
        self.cached_units = units = self.cached_units + self.units_per_step * steps
        self.cached_tokens = units / UNIT
        if not ends or ends[0][0] > step:
            return NONE_ENDED
        ended, sequences = [], self.sequences
        while ends and ends[0][0] <= step:
            request = heappop(ends)[1]
            self.leave(request, sequences.output_tokens[request] - sequences.generated_tokens[request])
            ended.append(request)
            if self.stale:
                self.forget()
        return ended

    def leave(self, request: int, tokens: int) -> None:
        """Remove a sequence with a number of new tokens: book these and release its cache."""
        sequences, kv = self.sequences, self.kv
        _, _, joined, units, grows = self.joined.pop(request)
        cached, grown = sequences.computed_tokens[request], units * (self.step - joined)
        self.size -= 1
        self.units_per_step -= units
        self.cached_units -= cached * UNIT + grown
        self.cached_tokens = self.cached_units / UNIT
        sequences.generated_tokens[request] += tokens
        cached += tokens
        if grows:
            self.growing -= 1
            self.growing_units -= units
            self.grown_units -= grown
            # What it took becomes its own, up to what it needs; the others keep what they may need. By chance it may
            # need more than its mean share and all free blocks: then the cache of its last tokens is lost.
            spare, held = max(0, -self.missing_blocks(0)), kv.held[request]
            self.taken_blocks -= spare
            own = min(max(0, kv.blocks_for(cached) - held), spare + kv.free_blocks)
            kv.give_back(spare - own)
            cached = min(cached, (held + own) * kv.block_size)
        kv.release(request, cached)
