"""Kernels that send tokens to their experts and results back: DeepEP's, with the costs of its published figures.

The figures are those of the README of deepseek-ai/DeepEP: H800 (NVLink of about 160 GB/s), one card of 400 Gb/s (50
GB/s) for each GPU, hidden size 7168, 8 experts a token, dispatch in fp8 (7.57 MB of 128 tokens with scales) and
combine in 16 bit (14.68 MB).

============  ==================  =================
kernels       low latency: us     normal: GB/s
ranks         dispatch, combine   dispatch, combine
============  ==================  =================
8 (NVLink)    77, 114             153, 158
16            118, 195            43, 43
32            155, 273            58, 57
64            173, 314            51, 50
128           192, 369
256           194, 360
============  ==================  =================

Two sizes give a constant and a bandwidth for each number of ranks. The constants are 38, 36, 29, 23, 4 and 17 us; the
median is 26 us. What leaves a node, (N - 8) / N of the bytes, then moves at 46, 45, 44, 38 and 42 GB/s: 0.88 of the
card. Within a node the bytes move at the bandwidth of NVLink. Normal kernels send a token once to each node: 43, 58
and 51 GB/s, what stays in the node counted, are up to 45 GB/s of what leaves it; within a node they reach 0.97 of
NVLink. Their constant is not published; they exchange sizes before tokens, so two low-latency constants are assumed.

Beside other computation, the normal kernels keep 24 multiprocessors of 132 (README). Of the 170 us in which
low-latency kernels dispatch, they occupy the GPU for 60 us (LMSYS blog, 2025-05-05, "Detail Breakdown"); the same
share is assumed of combining.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simsys.collectives.base import CollectiveKind, Path, Span
from simsys.collectives.choose import ONE_NODE, Choose, PathsOf
from simsys.collectives.collective_plan import CollectivePlan
from simsys.collectives.direct import Direct


@dataclass(frozen=True, slots=True)
class ExpertKernel:
    """Costs of the kernels for one direction.

    Args:
        name: Its name in experiments.
        overhead_s: Time without any bytes.
        inside: Share of the bandwidth of links within a node.
        across: Share of the bandwidth between nodes.
        once_per_place: Whether a token is sent once to each node (or GPU, in one node) of its experts, rather than
            once for each expert.
        occupied: Share of a GPU that it keeps from other computation while it lasts.
    """

    name: str
    overhead_s: float
    inside: float
    across: float
    once_per_place: bool
    occupied: float

    def over(self, path: Path) -> Path:
        """A path as the kernel sees it."""
        share = self.across if path.way.crossing else self.inside
        return Path(path.latency_s, path.bytes_per_s * share, path.way)


EXPERT_KERNELS = {
    each.name: each
    for each in (
        ExpertKernel("deepep_high_throughput", 52e-6, 0.97, 0.88, once_per_place=True, occupied=24 / 132),
        ExpertKernel("deepep_low_latency", 26e-6, 1.0, 0.88, once_per_place=False, occupied=60 / 170),
    )
}
"""Kernels by their names."""


def with_expert_kernel(choose: Choose, kernel: ExpertKernel) -> Choose:
    """A chooser whose all-to-alls are those of a kernel.

    Args:
        choose: The chooser for all other kinds.
        kernel: The kernel.
    """

    def chosen(kind: CollectiveKind, size: int, paths_of: PathsOf, span: Span = ONE_NODE) -> Sequence[CollectivePlan]:
        if kind is not CollectiveKind.ALL_TO_ALL:
            return choose(kind, size, paths_of, span)
        direct = Direct().for_nodes(span.per_node)
        paths = paths_of(direct)
        return [CollectivePlan(direct, kind, size, paths, kernel.name, kernel.over, kernel.overhead_s)]

    return chosen
