"""Prompts first, in separate steps and in chunks, as SGLang without mixed chunks (Zheng et al. 2024).

While prompts wait and fit, a step processes only prompts, up to its tokens (`chunked_prefill_size`); decoding pauses.
The last prompt is cut if needed and continues in the next step.
"""

from __future__ import annotations

from frameworks.chunked_prefill import ChunkedPrefill
from simsys.framework import register


@register("prefill_first")
class PrefillFirst(ChunkedPrefill):
    """First come, first served, never prompts and tokens in one step; preemption by recomputation."""

    mixes = False

    def decoding_tokens(self) -> int:
        """Decoding sequences pause, so they use no tokens of a step with prompts."""
        return 0
