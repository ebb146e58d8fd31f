"""All-reduce by an engine's own kernels in place of NCCL's, as engines that serve have it for small messages.

Every rank reads its block of all others over NVLink, adds up, and all read the sums: the direct algorithm, with less
to launch than NCCL has (vLLM, csrc/custom_all_reduce.cuh; TensorRT-LLM, customAllReduceKernels.cu).
"""

from __future__ import annotations

from collections.abc import Sequence

from simsys.collectives.base import CollectiveKind, Span
from simsys.collectives.choose import ONE_NODE, Choose, PathsOf
from simsys.collectives.direct import Direct
from simsys.collectives.nccl import RAMP
from simsys.collectives.plan import Plan

PROTOCOL = "own"


def with_own_all_reduce(choose: Choose, overhead_s: float) -> Choose:
    """A chooser that compares the engine's own all-reduce too, in groups inside one node.

    Args:
        choose: What is compared besides.
        overhead_s: Time to launch it, and for the ranks to meet.
    """

    def compared(kind: CollectiveKind, size: int, paths_of: PathsOf, span: Span = ONE_NODE) -> Sequence[Plan]:
        plans = choose(kind, size, paths_of, span)
        if kind is not CollectiveKind.ALL_REDUCE or span.nodes > 1:
            return plans
        direct = Direct(size)
        own = Plan(direct, kind, size, paths_of(direct), PROTOCOL, overhead_s=overhead_s, ramp=RAMP)
        return [*plans, own]

    return compared
