"""Continuous batching with chunked prefill, as vLLM v1 schedules (and Sarathi-Serve: Agrawal et al. 2024, §4).

A step has a budget of tokens. Decoding sequences take one each; what is left goes to prompts, in chunks:
first to those begun, then to those that wait, as long as sequences and KV blocks allow.
"""

from __future__ import annotations

from pydantic import NonNegativeInt, PositiveInt

from simsys.framework import Chunk, Scheduler, register


@register("chunked_prefill")
class ChunkedPrefill(Scheduler):
    """First come, first served under a token budget; preemption by recomputation."""

    class Options(Scheduler.Options):
        """Limits of a step, named as in vLLM."""

        max_num_seqs: PositiveInt = 256
        max_num_batched_tokens: PositiveInt = 2048
        long_prefill_token_threshold: NonNegativeInt = 0

    budget = 0
    """Tokens of the current step that nobody has taken."""

    def schedule(self) -> list[Chunk]:
        """Share out the budget."""
        self.budget = self.options.max_num_batched_tokens - self.decode.size
        if not self.waiting and not self.prefilling:
            return []
        chunks: list[Chunk] = []
        for request in list(self.prefilling):
            tokens = self.chunk_tokens(request, self.budget)
            if tokens and request in self.prefilling:
                self.take(self.extend(request, tokens), chunks)
        while self.waiting and len(self.running) < self.options.max_num_seqs:
            tokens = self.chunk_tokens(self.waiting[0], self.budget)
            if not tokens or not self.take(self.admit(self.waiting[0], tokens), chunks):
                break
        return [chunk for chunk in chunks if chunk.request in self.prefilling]

    def take(self, chunk: Chunk | None, chunks: list[Chunk]) -> bool:
        """Put a chunk into the step, if there is one."""
        if chunk is None:
            return False
        chunks.append(chunk)
        self.budget -= chunk.tokens
        return True

    def chunk_tokens(self, request: int, budget: int) -> int:
        """How much of a prompt fits into this step."""
        limit = self.options.long_prefill_token_threshold or budget
        return max(0, min(self.sequences.remaining_prompt(request), limit, budget))

    def wants(self, request: int) -> bool:
        """Only the first of the queue can be admitted, if there is room in the step."""
        return self.budget > 0 and len(self.running) < self.options.max_num_seqs and self.waiting[0] == request
