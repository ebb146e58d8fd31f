"""Mirrors of simulated groups: equal groups of ranks represented by simulated ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class Images:
    """Finds mirrors of groups: equal arrangements of other ranks of their roles.

    Args:
        representative: For each rank, its representative.
    """

    def __init__(self, representative: Mapping[int, int]) -> None:
        self._representative = representative
        self._alike: dict[int, list[int]] = {}
        for rank in sorted(representative):
            self._alike.setdefault(representative[rank], []).append(rank)

    def shifts(self, ranks: Sequence[int]) -> list[int]:
        """Distances (in ranks) from a group to all groups with equal work, including itself (0).

        Together these groups contain every rank of the first rank's role once, like the groups along an axis.
        """
        first, shifts, covered = ranks[0], [], set[int]()
        for rank in self._alike[self._representative[first]]:
            shift = rank - first
            if rank not in covered and self._same_roles(ranks, shift):
                shifts.append(shift)
                covered.update(each + shift for each in ranks)
        return shifts

    def _same_roles(self, ranks: Sequence[int], shift: int) -> bool:
        return all(self._representative.get(rank + shift) == self._representative[rank] for rank in ranks)
