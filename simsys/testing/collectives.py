"""Rules that every collective algorithm must obey."""

from __future__ import annotations

import math
from collections.abc import Sequence

from simsys.collectives import Algorithm, CollectiveKind, Path, Phase, bytes_sent
from simsys.collectives.base import Span
from simsys.errors import UsageError
from simsys.sums import ordered_sum
from simsys.testing.subclass import check_class

SIZES = (2, 3, 4, 5, 7, 8, 16)
"""Ranks of the groups that an algorithm is asked about; it may refuse some."""
NBYTES = (0.0, 1.0, 1e6, 1e9)
"""Full buffers that it is timed for."""
PATH = Path(latency_s=1e-6, bytes_per_s=50e9)
AGREEMENT = 1e-9
"""Largest relative difference between the closed form and the sum of the phases."""
IN_SWITCH = "nvls"
"""Beginning of the patterns of algorithms in which switches add up and copy, so that transfers only load links."""


def check_collective(algorithm: type) -> str:
    """Check a collective algorithm on groups of 2 to 16 ranks.

    It must have a name and kinds; be deterministic; name ranks of the group only; let every rank that needs the data
    of another hear of it, directly or by others; take as long by its closed form as by its phases; and take no less
    time for more bytes. A number of ranks that it does not support is refused with `UsageError`.

    Args:
        algorithm: A subclass of `Algorithm`.

    Returns:
        ``ok``.

    Raises:
        AssertionError: Which rule is broken, and how.

    Example:
        >>> from simsys.collectives.ring import Ring
        >>> from simsys.testing import check_collective
        >>> check_collective(Ring)
        'ok'
    """
    check_class(algorithm, Algorithm, "collective algorithm", "simsys.collectives")
    place = algorithm.__name__
    if not isinstance(getattr(algorithm, "name", None), str):
        raise AssertionError(f"{place}: a name is missing: name = 'my_algorithm'")
    made = algorithm()
    if not getattr(made, "kinds", None) or not all(isinstance(kind, CollectiveKind) for kind in made.kinds):
        raise AssertionError(f"{place}: kinds are missing: kinds = frozenset({{CollectiveKind.ALL_REDUCE}})")
    for kind in sorted(made.kinds):
        sizes = [size for size in SIZES if check_group(made, kind, size)]
        if not sizes:
            raise AssertionError(f"{place}: {kind} accepts no group of {', '.join(map(str, SIZES))} ranks")
    return "ok"


def check_group(algorithm: Algorithm, kind: CollectiveKind, size: int) -> bool:
    """Check one kind of collective in groups of one size; False if the algorithm refuses it."""
    where = f"{type(algorithm).__name__}: {kind} of {size} ranks"
    spans = [Span(1, size), *([] if size % 2 or size == 2 else [Span(size // 2, 2)])]
    per_node = next((span.per_node for span in spans if algorithm.suits(span)), None)
    if per_node is None:
        return False
    algorithm = algorithm.for_nodes(per_node)
    try:
        phases = algorithm.phases(kind, size)
    except UsageError:
        return False
    except Exception as error:
        raise AssertionError(f"{where}: {error!r}; refuse numbers of ranks with UsageError") from error
    if algorithm.phases(kind, size) != phases:
        raise AssertionError(f"{where}: not deterministic: two answers differ")
    check_transfers(where, phases, size)
    if not algorithm.pattern.startswith(IN_SWITCH):
        check_arrival(where, phases, kind, size)
    check_times(where, algorithm, kind, size, phases)
    return True


def check_transfers(where: str, phases: Sequence[Phase], size: int) -> None:
    """Phases are of `Phase`, and their transfers are between different ranks of the group."""
    for number, phase in enumerate(phases):
        if not isinstance(phase, Phase):
            raise AssertionError(f"{where}: phase {number} is {phase!r}, not a Phase")
        for src, dst in phase.transfers:
            if not (0 <= src < size and 0 <= dst < size) or src == dst:
                message = f"phase {number} sends from {src} to {dst}, not between two of the ranks 0 to {size - 1}"
                raise AssertionError(f"{where}: {message}")


def check_arrival(where: str, phases: Sequence[Phase], kind: CollectiveKind, size: int) -> None:
    """Every rank hears of all ranks whose data it needs; in a phase, from what senders knew when it began."""
    heard = [{rank} for rank in range(size)]
    for phase in phases:
        for _ in range(min(phase.repeat, size)):  # more repetitions of a step say nothing new
            before = [set(each) for each in heard]
            for src, dst in phase.transfers:
                heard[dst] |= before[src]
    for rank, needed in enumerate(needed_by_rank(kind, size)):
        for src in sorted(needed - heard[rank]):
            raise AssertionError(f"{where}: nothing of rank {src} reaches rank {rank}")


def needed_by_rank(kind: CollectiveKind, size: int) -> list[set[int]]:
    """The ranks whose data each rank needs."""
    if kind is CollectiveKind.BROADCAST:
        return [{0}] * size
    if kind is CollectiveKind.REDUCE:
        return [set(range(size)), *[set[int]()] * (size - 1)]
    if kind is CollectiveKind.SEND_RECV:
        return [{(rank - 1) % size} for rank in range(size)]
    return [set(range(size))] * size


def check_times(where: str, algorithm: Algorithm, kind: CollectiveKind, size: int, phases: Sequence[Phase]) -> None:
    """The closed form equals the sum of the phases, is finite, and does not decrease with the bytes."""
    before_s = 0.0
    for nbytes in NBYTES:
        found_s = algorithm.seconds(kind, size, nbytes, [PATH])
        summed_s = ordered_sum(phase.repeat * PATH.seconds(phase.fraction * nbytes) for phase in phases)
        if not math.isfinite(found_s) or abs(found_s - summed_s) > AGREEMENT * summed_s:
            raise AssertionError(
                f"{where}: closed_form gives {found_s} s for {nbytes:g} bytes, its phases take {summed_s} s"
            )
        if found_s < before_s:
            raise AssertionError(f"{where}: {nbytes:g} bytes take {found_s} s, fewer take {before_s} s")
        before_s = found_s
    if not bytes_sent(phases, 1.0):
        raise AssertionError(f"{where}: nothing is sent")
