"""Static batching: a batch is formed when the one before has ended, and ends with its longest request.

The whole of a request's cache is reserved from the beginning, so nothing is preempted (FasterTransformer works like
this; Yu et al. 2022, "Orca", §2, on what it wastes).
"""

from __future__ import annotations

from frameworks.whole_prompts import WholePrompts
from simsys.framework import Chunk, register


@register("static_batching")
class StaticBatching(WholePrompts):
    """All prompts of a batch in one step, then all its tokens."""

    mixes = False

    def schedule(self) -> list[Chunk]:
        """As many as fit into a step, and then nothing until all have ended."""
        return [] if self.running else self.admit_whole(self.options.max_num_batched_tokens, reserve=True)

    def wants(self, request: int, tokens: int) -> bool:
        """A batch under way admits nobody."""
        return False
