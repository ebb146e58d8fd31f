"""Iteration-level scheduling: requests join and leave the batch at every step (Yu et al. 2022, "Orca", §4).

Prompts are processed in one piece, together with the tokens of the sequences that decode. The cache of a request's
longest length is reserved when it is admitted, so nothing is preempted.
"""

from __future__ import annotations

from frameworks.whole_prompts import WholePrompts
from simsys.framework import Chunk, register


@register("orca")
class Orca(WholePrompts):
    """Admit requests that fit completely, first come, first served."""

    def schedule(self) -> list[Chunk]:
        """Admit requests that fit together with the decoding sequences."""
        decoding = self.decode.size * self.decode.queries
        return self.admit_whole(self.options.max_num_batched_tokens - decoding, reserve=True)
