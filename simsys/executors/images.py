"""Groups that do what a simulated group does, but are not simulated themselves, because their ranks have stand-ins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class Images:
    """Where the images of groups lie: the same arrangement of ranks, shifted to others of the same roles.

    Args:
        stand_in: For each rank the one that runs a process for it.
    """

    def __init__(self, stand_in: Mapping[int, int]) -> None:
        self._stand_in = stand_in
        self._alike: dict[int, list[int]] = {}
        for rank in sorted(stand_in):
            self._alike.setdefault(stand_in[rank], []).append(rank)

    def shifts(self, ranks: Sequence[int]) -> list[int]:
        """By how much to shift a group to get each group that does the same, itself (0) included.

        Together they hold every rank of the first one's role once, as the groups along an axis do.
        """
        first, shifts, covered = ranks[0], [], set[int]()
        for rank in self._alike[self._stand_in[first]]:
            shift = rank - first
            if rank not in covered and self._same_roles(ranks, shift):
                shifts.append(shift)
                covered.update(each + shift for each in ranks)
        return shifts

    def _same_roles(self, ranks: Sequence[int], shift: int) -> bool:
        return all(self._stand_in.get(rank + shift) == self._stand_in[rank] for rank in ranks)
