"""The ranks of process groups: from a file, and from the nodes in which PyTorch records them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from simsys.chakra.nodes import NodeType, RankTrace
from simsys.chakra.tasks import place_of
from simsys.errors import TraceError
from simsys.input_files import parse_json, read_text, unreadable
from simsys.parallel.layout import GROUPS, Group

ALL_RANKS = ""
"""Name of the process group of collectives without one: all ranks."""
RECORDED = "process_group:init"
"""Part of the name of the nodes in which PyTorch records its groups (torch.profiler, ExecutionTraceObserver)."""

Named = Mapping[str, tuple[int, ...]]
"""Ranks of process groups by name."""


class ProcessGroups:
    """The process groups of the traces.

    Args:
        named: Groups of the file, which are the same for all ranks.
        source: The file; None if there is none.
        stated: Groups that the trace of each rank states; a name may stand for other ranks in another trace.
    """

    def __init__(self, named: Named, source: str | None, stated: Sequence[Named]) -> None:
        self._named = {ALL_RANKS: tuple(range(len(stated))), **named}
        self._source, self._stated = source, stated
        self._groups: dict[tuple[str, tuple[int, ...]], Group] = {}

    def of(self, rank: int, name: str, axis: str, place: str) -> Group:
        """A group by its name.

        Args:
            rank: The rank that names it.
            name: Its name.
            axis: Its axis of parallelism, if it is known.
            place: The node that names it, for messages.

        Raises:
            TraceError: If there is no such group, or the rank is not in it.
        """
        ranks = self._named.get(name) or self._stated[rank].get(name)
        if ranks is None:
            where = "no file with process groups was found" if self._source is None else f"not in {self._source}"
            raise TraceError(f"{place}: unknown process group {name!r} (pg_name): {where}")
        if rank not in ranks:
            raise TraceError(f"{place}: rank {rank} is not in its process group {name!r}: {list(ranks)}")
        group = self._groups.get((name, ranks))
        if group is None:
            group = self._groups[name, ranks] = Group(ranks, axis if axis in GROUPS else "data")
        return group


def read_groups(path: Path) -> Named:
    """Read process groups: a JSON mapping of names to lists of ranks, as ASTRA-sim reads it.

    Raises:
        TraceError: If it is something else, with the place.
    """
    try:
        data = parse_json(read_text(path))
    except (OSError, ValueError) as error:
        raise TraceError(unreadable(path, error)) from None
    if not isinstance(data, dict):
        raise TraceError(f'{path}: a mapping of process groups to ranks is needed, such as {{"1": [0, 1]}}')
    return {name: _ranks(ranks, f"{path}: process group {name!r}") for name, ranks in data.items()}


def recorded_groups(trace: RankTrace, num_ranks: int) -> Named:
    """The process groups that a trace of PyTorch states: lists of mappings with ``pg_name`` and ``ranks``.

    Args:
        trace: The trace of a rank.
        num_ranks: Number of traces; no ranks mean all.

    Raises:
        TraceError: If a node of process groups states something else.
    """
    found: dict[str, tuple[int, ...]] = {}
    for node in trace.nodes:
        if node.type != NodeType.METADATA or RECORDED not in node.name or not node.values:
            continue
        place = place_of(trace, node)
        for entry in _entries(node.values, place):
            if not isinstance(entry, dict) or "pg_name" not in entry or "ranks" not in entry:
                raise TraceError(f"{place}: a process group needs pg_name and ranks, not {entry!r}")
            ranks = entry["ranks"] or list(range(num_ranks))
            found[str(entry["pg_name"])] = _ranks(ranks, f"{place}: process group {entry['pg_name']!r}")
    return found


def _entries(values: str, place: str) -> list[Any]:
    """The list of process groups in the text of a node, which is JSON within quoted lists."""
    start, end = values.find("[{"), values.rfind("}]")
    text = values[start : end + 2] if 0 <= start < end else ""
    for each in (text, text.replace('\\"', '"')):
        try:
            found = parse_json(each)
        except ValueError:
            continue
        if isinstance(found, list):
            return found
    raise TraceError(f"{place}: its values are no list of process groups")


def _ranks(ranks: object, place: str) -> tuple[int, ...]:
    numbers = isinstance(ranks, list) and all(type(rank) is int and rank >= 0 for rank in ranks)
    if not isinstance(ranks, list) or not numbers or not ranks or len(set(ranks)) < len(ranks):
        raise TraceError(f"{place}: a list of different ranks is needed, not {ranks!r}")
    return tuple(ranks)
