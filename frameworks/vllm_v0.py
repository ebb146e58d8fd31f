"""Prefill first, as vLLM's first engine without chunked prefill (Kwon et al. 2023, §4.5; vLLM v0).

While prompts wait and fit, a step processes only prompts, and decoding pauses. If blocks run out, the request admitted
last is preempted and recomputed. Admission leaves a hundredth of the blocks free.
"""

from __future__ import annotations

from frameworks.whole_prompts import WholePrompts
from simsys.framework import Chunk, register

WATERMARK = 0.01
"""Share of blocks to keep free, `watermark` of vLLM's v0 block manager."""


@register("vllm_v0")
class VLLMv0(WholePrompts):
    """Prompts before tokens, never both in one step."""

    mixes = False

    def schedule(self) -> list[Chunk]:
        """Admit waiting prompts that fit; without any, decode."""
        spare_blocks = int(WATERMARK * self.kv.num_blocks)
        return self.admit_whole(self.options.max_num_batched_tokens, spare_blocks=spare_blocks)

    def longest_prompt(self, request: int) -> int:
        """A preempted request is recomputed, with its generated tokens."""
        return self.sequences.final_cache_tokens(request)
