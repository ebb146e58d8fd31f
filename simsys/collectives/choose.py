"""Which algorithm a collective uses: one that the experiment names, or the cheapest."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simsys.collectives import ALGORITHMS, Algorithm, CollectiveKind, Path, get_algorithm
from simsys.errors import UnknownNameError

PathsOf = Callable[[Algorithm], Sequence[Path]]
"""The slowest path of each phase of an algorithm in the group at hand."""


def cheapest(kind: CollectiveKind, size: int, nbytes: float, paths_of: PathsOf) -> Algorithm:
    """The cheaper of ring and tree by their closed forms, the ring if they are equal.

    So the tree serves small messages in large groups, where latency decides, and the ring all others; a kind
    that the tree does not do goes to the ring. NCCL ranks its algorithms by modelled time in the same way
    (NVIDIA/nccl, src/graph/tuning.cc).

    Args:
        kind: Which collective.
        size: Ranks in the group.
        nbytes: Full buffer in bytes.
        paths_of: Answers with the paths that an algorithm's phases would take.

    Raises:
        UsageError: `size` is less than 1 or `nbytes` is negative or not finite.
    """
    ring, tree = get_algorithm("ring"), get_algorithm("tree")
    if kind not in tree.kinds:
        return ring
    return min((ring, tree), key=lambda algorithm: algorithm.seconds(kind, size, nbytes, paths_of(algorithm)))


def named(name: str) -> Callable[[CollectiveKind, int, float, PathsOf], Algorithm]:
    """A chooser that answers with the algorithm called `name` where it does the kind, else the cheapest.

    Raises:
        UnknownNameError: Nothing has that name.
    """
    if name == "auto":
        return cheapest
    if ":" not in name and name not in ALGORITHMS.names():
        raise UnknownNameError("communication pattern", name, ["auto", *ALGORITHMS.names()])
    wanted = get_algorithm(name)

    def choose(kind: CollectiveKind, size: int, nbytes: float, paths_of: PathsOf) -> Algorithm:
        return wanted if kind in wanted.kinds else cheapest(kind, size, nbytes, paths_of)

    return choose
