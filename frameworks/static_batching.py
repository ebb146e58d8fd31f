"""Static batching: a batch is formed after the end of the previous one, and ends with its longest request.

The whole KV cache of a request is reserved at the start, so nothing is preempted (as in FasterTransformer; Yu et al.
2022, "Orca", §2, discuss the waste).
"""

from __future__ import annotations

from frameworks.whole_prompts import WholePrompts
from simsys.framework import Chunk, of_first_only, register


@register("static_batching")
class StaticBatching(WholePrompts):
    """All prompts of a batch in one step, then all its tokens."""

    mixes = False

    def schedule(self) -> list[Chunk]:
        """As many as fit into a step, and then nothing until all have ended."""
        return [] if self.running else self.admit_whole(self.options.max_num_batched_tokens, reserve=True)

    @of_first_only
    def wants(self, request: int, tokens: int) -> bool:
        """A running batch admits no requests."""
        return False
