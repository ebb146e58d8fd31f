"""How unevenly the experts of a mixture are used, and how replicas of popular ones even it out.

The balancer is that of DeepSeek (deepseek-ai/EPLB, its global policy): each additional slot gets a replica of the
expert with most tokens per replica, and slots are then dealt to the ranks, the largest first, each to the rank with
the fewest tokens that has room.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heapreplace

from simsys.errors import UsageError
from simsys.sums import ordered_sum


def zipf_shares(experts: int, exponent: float) -> list[float]:
    """Shares of the tokens by expert: that of the i-th most popular one is in proportion to i to the power -exponent.

    Example:
        >>> zipf_shares(4, 0.0)
        [0.25, 0.25, 0.25, 0.25]
    """
    weights = [float(place**-exponent) for place in range(1, experts + 1)]
    total = ordered_sum(weights)
    return [weight / total for weight in weights]


def shares_of(counts: Sequence[float]) -> list[float]:
    """Shares of the tokens by expert from measured counts.

    Raises:
        UsageError: A count is negative, or all are 0.
    """
    total = ordered_sum(counts)
    if total <= 0.0 or min(counts) < 0.0:
        raise UsageError("counts of tokens by expert are not negative, and not all 0")
    return [count / total for count in counts]


def load_of(shares: Sequence[float], ranks: int, *, redundant: int = 0, balanced: bool = False) -> float:
    """Tokens of the busiest rank over the mean.

    Args:
        shares: Shares of the tokens by expert.
        ranks: Ranks that divide the experts; each has equally many.
        redundant: Additional replicas of experts on all ranks together.
        balanced: Whether experts are placed by their shares; otherwise in their order.

    Raises:
        UsageError: If the ranks do not divide the experts and their replicas.
    """
    slots = replicated(shares, redundant) if balanced else list(shares)
    if len(slots) % ranks:
        raise UsageError(f"{len(slots)} experts and replicas cannot be divided among {ranks} ranks")
    each = len(slots) // ranks
    if not balanced:
        loads = [ordered_sum(slots[first : first + each]) for first in range(0, len(slots), each)]
    else:
        loads = packed(slots, ranks)
    return max(1.0, max(loads) * ranks)  # rounding apart, no less than the mean


def replicated(shares: Sequence[float], redundant: int) -> list[float]:
    """Shares by slot: every expert and the additional replicas, which halve, third … the share of an expert."""
    heap = [(-share, 1, expert) for expert, share in enumerate(shares)]
    heapify(heap)
    for _ in range(redundant):
        _, count, expert = heap[0]
        heapreplace(heap, (-shares[expert] / (count + 1), count + 1, expert))
    return [-share for share, count, _ in heap for _ in range(count)]


def packed(slots: Sequence[float], ranks: int) -> list[float]:
    """Shares by rank, each with equally many slots."""
    room, loads = [len(slots) // ranks] * ranks, [0.0] * ranks
    for share in sorted(slots, reverse=True):
        rank = min((each for each in range(ranks) if room[each]), key=loads.__getitem__)
        loads[rank] += share
        room[rank] -= 1
    return loads


def expected_copies(chosen: int, places: int) -> float:
    """Places that a token is sent to, each once, if its chosen experts are anywhere with equal probability.

    Example:
        >>> expected_copies(1, 8), expected_copies(8, 1)
        (1.0, 1.0)
    """
    return 1.0 if places == 1 else places * (1.0 - (1.0 - 1.0 / places) ** chosen)
