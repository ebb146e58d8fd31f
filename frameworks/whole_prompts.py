"""What schedulers share that process every prompt in one piece."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import PositiveInt

from simsys.framework import Chunk, Scheduler, of_first_only


class WholePrompts(Scheduler):
    """First come, first served, under a limit of sequences and of tokens in a step."""

    cuts_prompts = False

    class Options(Scheduler.Options):
        """Limits of a step, named as in vLLM."""

        max_num_seqs: PositiveInt = 256
        max_num_batched_tokens: PositiveInt = 2048

    def admit_whole(self, budget: int, *, reserve: bool = False, spare_blocks: int = 0) -> list[Chunk]:
        """Admit the next requests that fit.

        Args:
            budget: Remaining tokens of the step.
            reserve: Allocate the blocks of the whole output at once.
            spare_blocks: KV blocks to leave free.
        """
        chunks: list[Chunk] = []
        while self.waiting and len(self.running) < self.options.max_num_seqs:
            request = self.waiting[0]
            tokens = self.tokens_to_compute(request)
            held = self.sequences.final_cache_tokens(request) if reserve else 0
            blocks = max(self.admission_blocks(request, tokens), self.kv.admission_blocks(request, held))
            if tokens > budget or (blocks > self.kv.free_blocks - spare_blocks and self.running):
                break
            chunk = self.admit(request, tokens, reserve=held)
            if chunk is None:
                break
            chunks.append(chunk)
            budget -= tokens
        return chunks

    def considers(self) -> Iterable[int]:
        """The first of the queue, if there is a seat for it."""
        return (self.waiting[0],) if len(self.running) < self.options.max_num_seqs else ()

    @of_first_only
    def wants(self, request: int, tokens: int) -> bool:
        """Only the first of the queue can be admitted."""
        return len(self.running) < self.options.max_num_seqs and self.waiting[0] == request

    def refusal(self, request: int) -> str:
        """A prompt must fit into a step; after a preemption, with its generated tokens."""
        limit = self.options.max_num_batched_tokens
        if self.longest_prompt(request) <= limit:
            return ""
        return f"longer than max_num_batched_tokens={limit}, but its prompt cannot be cut"

    def longest_prompt(self, request: int) -> int:
        """Most tokens of a request that are ever processed at once."""
        return self.sequences.prompt_tokens[request]
