"""Two complementary binary trees, each for half of the data, in chunks that follow one another.

Sanders, Speck & Träff 2009, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel Computing
35(12); NCCL uses them across nodes (Jeaugey 2019, "Massively scale your deep learning training with NCCL 2.4"). A rank
that is an inner node of one tree is a leaf of the other, so every rank sends and receives at most two transfers in a
step. With N ranks, h = ⌈log₂ N⌉ levels, C chunks, a full buffer of S bytes, and a path of latency L and bandwidth B
(half of a rank's link, if both transfers use it)::

    all-reduce            2(h + C - 1) · (L + S/(2·C·B))       a reduce, then a broadcast
    broadcast, reduce     (h' + C - 1) · (L + S/(2·C·B))       h' = 1 + ⌈log₂(N-1)⌉

In a broadcast or reduce, the root is above the roots of two trees of the other ranks. More chunks use the links better
but need more steps; `DoubleTree.variants` are compared for every message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby

from simsys.collectives.base import Algorithm, CollectiveKind, Path, Phase, one_per_phase, register_algorithm
from simsys.collectives.tree import reversed_pairs
from simsys.errors import UsageError
from simsys.sums import ordered_sum

CHUNKS = (1, 8, 64)
"""The numbers of chunks that are compared."""

Pairs = tuple[tuple[int, int], ...]


@register_algorithm
class DoubleTree(Algorithm):
    """Two binary trees at once, pipelined: the latency of a tree at the bandwidth of a ring.

    Args:
        chunks: Into how many parts each half of the buffer is cut.
    """

    name = "double_tree"
    pattern = "tree"
    kinds = frozenset(
        {CollectiveKind.ALL_REDUCE, CollectiveKind.BROADCAST, CollectiveKind.REDUCE, CollectiveKind.BARRIER}
    )

    def __init__(self, chunks: int = 16) -> None:
        if chunks < 1:
            raise UsageError(f"a buffer is cut into at least one chunk, not {chunks!r}")
        self.chunks = chunks

    @property
    def label(self) -> str:
        """With the number of chunks."""
        return f"{self.name}*{self.chunks}"

    def variants(self) -> tuple[DoubleTree, ...]:
        """More or fewer chunks."""
        return tuple(DoubleTree(chunks) for chunks in CHUNKS)

    def make_phases(self, kind: CollectiveKind, size: int) -> tuple[Phase, ...]:
        """The levels that work on a chunk at the same time, step by step: ever more, all, ever fewer."""
        rooted = kind != CollectiveKind.ALL_REDUCE
        down = tuple(self._pipelined(size, rooted=rooted, up=False)) if kind != CollectiveKind.REDUCE else ()
        up = tuple(self._pipelined(size, rooted=rooted, up=True)) if kind != CollectiveKind.BROADCAST else ()
        return up + down

    def closed_form(self, kind: CollectiveKind, size: int, nbytes: float, paths: Sequence[Path]) -> float:
        """The formulas at the head of this module, with each phase's own path."""
        summed = kind == CollectiveKind.ALL_REDUCE
        levels = (size - 1).bit_length() if summed else 1 + (size - 2).bit_length()
        repeats = [len(list(steps)) for _, steps in groupby(self._windows(levels))] * (2 if summed else 1)
        each = one_per_phase(paths, len(repeats))
        chunk_bytes = nbytes / (2 * self.chunks)
        return ordered_sum(repeat * path.seconds(chunk_bytes) for repeat, path in zip(repeats, each, strict=True))

    def _pipelined(self, size: int, *, rooted: bool, up: bool) -> Iterator[Phase]:
        """Chunks go through the levels one after another."""
        levels = 1 + (size - 2).bit_length() if rooted else (size - 1).bit_length()
        for (first, last), steps in groupby(self._windows(levels)):
            busy = _busy(size, rooted, up, first, last)
            yield Phase(busy, 0.5 / self.chunks, repeat=len(list(steps)), pattern=self.pattern)

    def _windows(self, levels: int) -> list[tuple[int, int]]:
        """First and last level that is busy in each step."""
        return [(max(0, step - self.chunks + 1), min(levels - 1, step)) for step in range(levels + self.chunks - 1)]


def in_turns(pairs: Iterable[tuple[int, int]]) -> Pairs:
    """Transfers in an order in which two of one sender, or for one receiver, are not both early or both late.

    Everyone sends two at most and receives two at most. So transfers with a common end form paths and even circles,
    along which they are first and second by turns.
    """
    left = dict.fromkeys(enumerate(pairs))  # numbered, as both trees may have the same pair
    by_src: dict[int, list[tuple[int, tuple[int, int]]]] = {}
    by_dst: dict[int, list[tuple[int, tuple[int, int]]]] = {}
    for item in left:
        by_src.setdefault(item[1][0], []).append(item)
        by_dst.setdefault(item[1][1], []).append(item)
    turns: tuple[list[tuple[int, int]], list[tuple[int, int]]] = [], []
    while left:
        start = next(iter(left))
        del left[start]
        turns[0].append(start[1])
        for nearby, other in ((by_src, by_dst), (by_dst, by_src)):  # from the first transfer in both directions
            here, turn, ends, following = start, 1, nearby, other
            while True:
                end = here[1][0 if ends is by_src else 1]
                found = next((item for item in ends[end] if item in left), None)
                if found is None:
                    break
                del left[found]
                turns[turn].append(found[1])
                here, turn, ends, following = found, 1 - turn, following, ends
    return (*turns[0], *turns[1])


@lru_cache(maxsize=256)
def _busy(size: int, rooted: bool, up: bool, first: int, last: int) -> Pairs:
    """The transfers of the levels from `first` to `last`, counted from where the data come from."""
    levels = _levels_below_root(size) if rooted else _levels(size)
    if up:
        levels = tuple(reversed_pairs(level) for level in levels[::-1])
    return in_turns(pair for level in levels[first : last + 1] for pair in level)


@lru_cache(maxsize=64)
def _levels(size: int) -> tuple[Pairs, ...]:
    """Parent and child of both trees, level by level from the roots."""
    levels: tuple[list[tuple[int, int]], ...] = tuple([] for _ in range((size - 1).bit_length()))
    for parents in two_trees(size):
        for child, parent in parents.items():
            depth, node = 0, parent
            while node in parents:
                depth, node = depth + 1, parents[node]
            levels[depth].append((parent, child))
    return tuple(map(tuple, levels))


def _levels_below_root(size: int) -> tuple[Pairs, ...]:
    """Rank 0 above the two trees of the other ranks."""
    others = size - 1
    roots = [next(rank for rank in range(others) if rank not in parents) for parents in two_trees(others)]
    shifted = tuple(tuple((src + 1, dst + 1) for src, dst in level) for level in _levels(others))
    return (tuple((0, root + 1) for root in roots), *shifted)


def two_trees(size: int) -> tuple[dict[int, int], dict[int, int]]:
    """The parents of all ranks but the root, in both trees.

    In the first the lowest set bit of a rank says its height, so that odd ranks are leaves; the second is the first
    in a mirror, or shifted by one rank if their number is odd, as in NCCL (src/graph/trees.cc).

    Example:
        >>> two_trees(4)
        ({1: 2, 2: 0, 3: 2}, {2: 1, 1: 3, 0: 1})
    """
    first = {rank: _parent(rank, size) for rank in range(1, size)}
    if size % 2:
        return first, {(rank + 1) % size: (parent + 1) % size for rank, parent in first.items()}
    return first, {size - 1 - rank: size - 1 - parent for rank, parent in first.items()}


def _parent(rank: int, size: int) -> int:
    bit = rank & -rank
    above = (rank ^ bit) | (bit << 1)
    return above if above < size else rank ^ bit
