"""Chunked prefill, the shortest request first.

The length of a job is its prompt plus its output. A real engine would have to predict the output length, which is
known here, so this is an upper bound of any prediction.
"""

from __future__ import annotations

from frameworks.chunked_prefill import ChunkedPrefill
from simsys.framework import OrderedQueue, Queue, register


@register("shortest_job_first")
class ShortestJobFirst(ChunkedPrefill):
    """The waiting request with the fewest tokens comes first; running requests are not preempted for it."""

    def make_queue(self) -> Queue:
        """In order of length."""
        return OrderedQueue(self.sequences.final_cache_tokens)
