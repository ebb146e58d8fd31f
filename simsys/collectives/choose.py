"""Which algorithm a collective uses: one that the experiment names, or the cheapest."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simsys.collectives import ALGORITHMS, Algorithm, CollectiveKind, Path, get_algorithm
from simsys.errors import UnknownNameError

PathsOf = Callable[[Algorithm], Sequence[Path]]
"""The slowest path of each phase of an algorithm in the group at hand."""

Choose = Callable[[CollectiveKind, int, float, PathsOf, int], Algorithm]
"""Picks the algorithm for (kind, group size, bytes, paths, ranks per node)."""

CANDIDATES = ("ring", "tree", "hierarchical")
"""What `cheapest` compares, the last only in groups that span nodes; of equally cheap ones the first wins."""


def cheapest(kind: CollectiveKind, size: int, nbytes: float, paths_of: PathsOf, per_node: int = 1) -> Algorithm:
    """The cheapest of ring, tree and, for a group that fills several nodes, hierarchical, by their closed forms.

    So the tree serves small messages in large groups, where latency decides. NCCL ranks its algorithms by
    modelled time in the same way (NVIDIA/nccl, src/graph/tuning.cc).

    Args:
        kind: Which collective.
        size: Ranks in the group.
        nbytes: Full buffer in bytes.
        paths_of: Answers with the paths that an algorithm's phases would take.
        per_node: Ranks of the group in each node; 1 if they differ from node to node.

    Raises:
        UsageError: `size` is less than 1 or `nbytes` is negative or not finite.
    """
    names = CANDIDATES if per_node > 1 else CANDIDATES[:-1]
    candidates = [get_algorithm(name).for_nodes(per_node) for name in names]
    able = [algorithm for algorithm in candidates if kind in algorithm.kinds]
    if len(able) == 1:
        return able[0]
    return min(able, key=lambda algorithm: algorithm.seconds(kind, size, nbytes, paths_of(algorithm)))


def named(name: str) -> Choose:
    """A chooser that answers with the algorithm called `name` where it does the kind, else the cheapest.

    Raises:
        UnknownNameError: Nothing has that name.
    """
    if name == "auto":
        return cheapest
    if ":" not in name and name not in ALGORITHMS.names():
        raise UnknownNameError("communication pattern", name, ["auto", *ALGORITHMS.names()])
    wanted = get_algorithm(name)

    def choose(kind: CollectiveKind, size: int, nbytes: float, paths_of: PathsOf, per_node: int = 1) -> Algorithm:
        if kind in wanted.kinds:
            return wanted.for_nodes(per_node)
        return cheapest(kind, size, nbytes, paths_of, per_node)

    return choose
