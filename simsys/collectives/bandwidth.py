"""Algorithm and bus bandwidth of a collective, as nccl-tests defines them.

NVIDIA/nccl-tests, doc/PERFORMANCE.md: the algorithm bandwidth is the full buffer over the time; the bus bandwidth is
the lower limit of the rate of the busiest link, so it is comparable with hardware for any number of ranks. With
in-switch reduction it is not the rate of a wire.
"""

from __future__ import annotations

from simsys.collectives.base import CollectiveKind
from simsys.errors import UsageError


def algbw_bytes_per_s(nbytes: float, seconds: float) -> float:
    """Full buffer in bytes over the time of the collective in seconds; 0 for zero time.

    Example:
        >>> algbw_bytes_per_s(8e9, 0.04)
        200000000000.0
    """
    return nbytes / seconds if seconds else 0.0


def busbw_bytes_per_s(kind: CollectiveKind, size: int, nbytes: float, seconds: float) -> float:
    """Algorithm bandwidth times the bytes sent by each rank per byte of the full buffer.

    Args:
        kind: Which collective.
        size: Ranks in the group.
        nbytes: Full buffer in bytes.
        seconds: Time of the collective.

    Raises:
        UsageError: If the group has no rank.

    Example:
        >>> busbw_bytes_per_s(CollectiveKind.ALL_REDUCE, 8, 8e9, 0.04)
        350000000000.0
    """
    if size < 1:
        raise UsageError(f"a group has at least one rank, not {size!r}")
    return algbw_bytes_per_s(nbytes, seconds) * _factor(kind, size)


def _factor(kind: CollectiveKind, size: int) -> float:
    match kind:
        case CollectiveKind.ALL_REDUCE | CollectiveKind.BARRIER:
            return 2 * (size - 1) / size
        case CollectiveKind.ALL_GATHER | CollectiveKind.REDUCE_SCATTER | CollectiveKind.ALL_TO_ALL:
            return (size - 1) / size
        case CollectiveKind.BROADCAST | CollectiveKind.REDUCE | CollectiveKind.SEND_RECV:
            return 1.0
