"""Prompts first and alone, in chunks, as SGLang schedules without mixed chunks (Zheng et al. 2024).

As long as prompts wait and fit, a step processes prompts alone, up to its tokens (`chunked_prefill_size`), and those
that decode stand still. The prompt that does not fit whole is cut, and goes on in the next step.
"""

from __future__ import annotations

from frameworks.chunked_prefill import ChunkedPrefill
from simsys.framework import register


@register("prefill_first")
class PrefillFirst(ChunkedPrefill):
    """First come, first served, never prompts and tokens in one step; preemption by recomputation."""

    mixes = False

    def decoding_tokens(self) -> int:
        """Those that decode stand still, so that they take nothing of a step with prompts."""
        return 0
