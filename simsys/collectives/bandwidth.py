"""Algorithm and bus bandwidth of a collective, as nccl-tests defines them.

NVIDIA/nccl-tests, doc/PERFORMANCE.md: the algorithm bandwidth is the full buffer over the time; the bus bandwidth is
what the busiest link must have carried at least, so that it can be compared with the hardware's whatever the number
of ranks. With in-switch reduction it is no longer a wire's rate.
"""

from __future__ import annotations

from simsys.collectives.base import CollectiveKind
from simsys.errors import UsageError


def algbw_bytes_per_s(nbytes: float, seconds: float) -> float:
    """Full buffer in bytes over the time of the collective in seconds; 0 if it took none.

    Example:
        >>> algbw_bytes_per_s(8e9, 0.04)
        200000000000.0
    """
    return nbytes / seconds if seconds else 0.0


def busbw_bytes_per_s(kind: CollectiveKind, size: int, nbytes: float, seconds: float) -> float:
    """Algorithm bandwidth times what each rank has to send per byte of the full buffer.

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
