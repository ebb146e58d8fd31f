"""Static batching: a batch is formed when the one before has ended, and ends with its longest request.

The whole of a request's cache is reserved from the beginning, so nothing is preempted (FasterTransformer works like
this; Yu et al. 2022, "Orca", §2, on what it wastes).
"""

from __future__ import annotations

from frameworks.whole_prompts import WholePrompts
from simsys.framework import Chunk, register


@register("static_batching")
class StaticBatching(WholePrompts):
    """All prompts of a batch, in as many steps as the budget makes of them; then all its tokens."""

    mixes = False

    forming = False
    """Whether the batch can still grow."""

    def schedule(self) -> list[Chunk]:
        """As many as fit, and then nothing until all have ended."""
        if not self.running:
            self.forming = True
        chunks = self.admit_whole(self.options.max_num_batched_tokens, reserve=True) if self.forming else []
        self.forming = bool(chunks)
        return chunks

    def wants(self, request: int) -> bool:
        """A batch under way admits nobody."""
        return False
