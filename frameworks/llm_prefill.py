"""LLM prefill: prompts become KV cache and a first token, in one piece or in chunks."""

from __future__ import annotations

from collections.abc import Sequence

from simsys.framework import Chunk, PrefillPhase, register
from simsys.model.batch import Batch, batch_of


@register("llm_prefill")
class LLMPrefill(PrefillPhase):
    """Each chunk attends to what is cached of its prompt and to itself; a complete prompt yields a token."""

    def work(self, chunks: Sequence[Chunk]) -> Batch:
        """Tokens, attention and logits of all chunks together."""
        sequences = self.sequences
        computed, generated, prompts = sequences.computed_tokens, sequences.generated_tokens, sequences.prompt_tokens
        tokens = complete = context = 0
        pairs = 0.0
        for request, count in chunks:
            cached = computed[request]
            tokens += count
            complete += cached + count == prompts[request] + generated[request]
            pairs += count * (2 * cached + count + 1) / 2
            context += cached
        return batch_of((tokens, complete, pairs, context, 0.0, 0.0, 0.0, 0.0, 0.0, False))

    def finish(self, chunks: Sequence[Chunk], steps: int = 1) -> list[int]:
        """Book the chunks; return the requests whose prompt is complete."""
        sequences, complete = self.sequences, []
        computed, generated, prompts = sequences.computed_tokens, sequences.generated_tokens, sequences.prompt_tokens
        for request, count in chunks:
            computed[request] = cached = computed[request] + count * steps
            if cached == prompts[request] + generated[request]:
                generated[request] += 1
                complete.append(request)
        return complete
