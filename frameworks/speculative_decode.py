"""Speculative decoding: each step verifies a draft of every sequence and accepts some of it (Leviathan et al. 2023).

How much is accepted is drawn for each sequence and step, and depends on nothing but the request, how far its answer
has come, and the seed: so it is the same at every level of detail, whatever else is in the batch, and after a
preemption.
"""

from __future__ import annotations

from simsys.framework import DecodePhase, register
from simsys.framework import Sequences as Requests
from simsys.model.batch import Batch
from simsys.model.speculation import Speculation
from simsys.serving.kv_cache import PagedKVCache

STRIDE = 7919
"""Between the draws of two requests; prime, so that all begin at different ones."""


@register("speculative_decode")
class SpeculativeDecode(DecodePhase):
    """One or more tokens per sequence and step; a step costs O(sequences), and each is simulated.

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
        self.draws = self.speculation.draws(seed)
        self.decoded: dict[int, int] = {}  # request -> tokens since it joined

    def add(self, request: int) -> None:
        """The first of the remaining tokens come with the next step."""
        self.decoded[request] = 0
        self.size += 1
        self.cached_tokens += self.sequences.computed_tokens[request]

    def remove(self, request: int) -> None:
        """Keep the tokens, release the cache."""
        self.leave(request)

    def steps_left(self) -> int:
        """Tokens are accepted step by step."""
        return 1

    def missing_blocks(self, steps: int = 1) -> int:
        """Blocks that the tokens of the next step begin; what is rejected needs no room of its own."""
        return sum(self.new_blocks(request) for request in self.decoded)

    def beside(self, prompts: Batch) -> Batch:
        """One pass over the drafts of all sequences, beside prompts."""
        return prompts + self.speculation.verification(self.size, self.cached_tokens)

    def finish(self, steps: int = 1) -> list[int]:
        """Accept what is due; sequences with their last token leave."""
        if not self.decoded:
            return []
        self.kv.take_for_decode(self.missing_blocks())
        ended = []
        for request in self.decoded:
            tokens = self.due(request)
            self.decoded[request] += tokens
            self.cached_tokens += tokens
            if not self.remaining(request):
                ended.append(request)
        for request in ended:
            self.leave(request)
        return ended

    def leave(self, request: int) -> None:
        """Take a sequence out, with its tokens booked and its cache released."""
        self.size -= 1
        decoded = self.decoded.pop(request)
        self.sequences.generated_tokens[request] += decoded
        cached = self.sequences.computed_tokens[request] + decoded
        self.cached_tokens -= cached
        self.kv.release(request, cached)

    def due(self, request: int) -> int:
        """Tokens that the next step yields."""
        draws, so_far = self.draws, self.sequences.generated_tokens[request] + self.decoded[request]
        return min(draws[(request * STRIDE + so_far) % len(draws)], self.remaining(request))

    def remaining(self, request: int) -> int:
        """Tokens to go."""
        sequences = self.sequences
        return sequences.output_tokens[request] - sequences.generated_tokens[request] - self.decoded[request]

    def new_blocks(self, request: int) -> int:
        """Blocks that this sequence's next tokens begin, beyond those that were reserved for it."""
        cached = self.sequences.computed_tokens[request] + self.decoded[request]
        held, kv = self.kv.held[request], self.kv
        return max(held, kv.blocks_for(cached + self.due(request))) - max(held, kv.blocks_for(cached))
