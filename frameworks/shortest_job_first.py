"""Chunked prefill, the shortest request first.

A job is as long as its prompt and its output. A real engine would have to predict the output; here its length is
known, so this is the best that a prediction can do.
"""

from __future__ import annotations

from frameworks.chunked_prefill import ChunkedPrefill
from simsys.framework import OrderedQueue, Queue, register


@register("shortest_job_first")
class ShortestJobFirst(ChunkedPrefill):
    """Among those that wait, the one with the fewest tokens; those that run are not preempted for it."""

    def make_queue(self) -> Queue:
        """In order of length."""
        return OrderedQueue(self.sequences.final_cache_tokens)
