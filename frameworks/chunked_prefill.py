"""Continuous batching with chunked prefill, as vLLM v1 schedules (and Sarathi-Serve: Agrawal et al. 2024, §4).

A step has a token budget. Each decoding sequence uses one token, and one per draft token. Prompts get the rest in
chunks: running prompts first, then waiting ones, within the limits of sequences and KV blocks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import NonNegativeInt, PositiveInt

from simsys.framework import Chunk, Scheduler, of_first_only, register


@register("chunked_prefill")
class ChunkedPrefill(Scheduler):
    """First come, first served under a token budget; preemption by recomputation."""

    class Options(Scheduler.Options):
        """Limits of a step, named as in vLLM."""

        max_num_seqs: PositiveInt = 256
        max_num_batched_tokens: PositiveInt = 2048
        long_prefill_token_threshold: NonNegativeInt = 0

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        limits = self.options
        self.seats, self.budget, self.threshold = (
            limits.max_num_seqs,
            limits.max_num_batched_tokens,
            limits.long_prefill_token_threshold or limits.max_num_batched_tokens,
        )

    def schedule(self) -> list[Chunk]:
        """Share out the budget."""
        waiting, running = self.waiting, self.running
        budget = self.budget - self.decoding_tokens()
        chunks = []
        if self.prefilling:
            for request in list(self.prefilling):
                tokens = self.chunk_tokens(request, budget)
                if tokens and request in self.prefilling and (chunk := self.extend(request, tokens)):
                    chunks.append(chunk)
                    budget -= chunk.tokens
        while waiting and len(running) < self.seats:
            request = waiting[0]
            tokens = self.chunk_tokens(request, budget)
            if not tokens or (chunk := self.admit(request, tokens)) is None:
                break
            chunks.append(chunk)
            budget -= chunk[1]
        return [chunk for chunk in chunks if chunk.request in self.prefilling] if self.preempted else chunks

    def decoding_tokens(self) -> int:
        """Tokens of decoding sequences in a step with prompts."""
        return self.decode.size * self.decode.queries

    def chunk_tokens(self, request: int, budget: int) -> int:
        """Tokens of a prompt that fit into this step."""
        tokens = self.sequences.remaining_prompt(request)
        if tokens > self.threshold:
            tokens = self.threshold
        if tokens <= budget:
            return tokens
        return budget if budget > 0 else 0

    def considers(self) -> Iterable[int]:
        """The first of the queue, if there is a seat for it."""
        return (self.waiting[0],) if len(self.running) < self.seats else ()

    @of_first_only
    def wants(self, request: int, tokens: int) -> bool:
        """Only the first of the queue can be admitted, if there is room in the step."""
        return self.waiting[0] == request and len(self.running) < self.seats and tokens < self.budget
