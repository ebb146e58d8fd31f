"""One-shot all-reduce: every rank reads the buffers of all other ranks concurrently, and sums them.

With N ranks, a full buffer of S bytes and a path of latency L and bandwidth B for each pair (through a switch an
(N-1)-th of a rank's link):

    all-reduce      L + S/B

It has one step less than the direct algorithm, and N/2 times its bytes. Serving engines have such a kernel for small
messages (vLLM, csrc/custom_all_reduce.cuh; TensorRT-LLM, customAllReduceKernels.cu).
"""

from __future__ import annotations

from simsys.collectives.base import Algorithm, CollectiveKind, Phase, register_algorithm
from simsys.collectives.ring import shifted_pairs


@register_algorithm
class OneShot(Algorithm):
    """One step for any group, at N-1 times the bytes of the buffer."""

    name = "one_shot"
    kinds = frozenset({CollectiveKind.ALL_REDUCE, CollectiveKind.BARRIER})

    def make_phases(self, kind: CollectiveKind, size: int) -> tuple[Phase, ...]:
        """One phase, in which each rank's peers come in rotated order so that no two ranks begin with the same."""
        everyone = tuple(pair for shift in range(1, size) for pair in shifted_pairs(size, shift))
        return (Phase(everyone, 1.0),)
