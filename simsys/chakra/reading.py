"""Reads the traces of all ranks with their process groups, and checks them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from glob import escape
from pathlib import Path

from simsys.chakra.files import read_trace
from simsys.chakra.node_reader import tasks_of
from simsys.chakra.nodes import Value
from simsys.chakra.order import check_matching, keep_streams_in_order
from simsys.chakra.process_groups import ProcessGroups, read_groups, recorded_groups
from simsys.chakra.tasks import RankTasks
from simsys.errors import TraceError

GROUPS_SUFFIX = ".comm_groups.json"
MOST_RANKS = 65_536
_FIRST = re.compile(r"(.+)\.0\.et(\.gz)?")


@dataclass(frozen=True)
class Workload:
    """The traces of a job.

    Args:
        prefix: What the names of its files begin with.
        ranks: The tasks of each rank.
        groups: The file with its process groups, if there is one.
        left_out: Number of nodes with control dependencies that are not followed.
    """

    prefix: Path
    ranks: Sequence[RankTasks]
    groups: Path | None
    left_out: int = 0

    @property
    def metadata(self) -> Mapping[str, Value]:
        """Facts about the traces, as rank 0 states them."""
        return self.ranks[0].trace.metadata

    @property
    def warnings(self) -> list[str]:
        """What may be meant otherwise than it is replayed."""
        if not self.left_out:
            return []
        text = f"control dependencies are not followed, as by feeders of Chakra; nodes with some: {self.left_out:,}"
        return [f"{text} (dependencies: all follows them)"]

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all ranks."""
        return sum(len(rank.tasks) for rank in self.ranks)


def read_workload(prefix: Path, groups: Path | None = None, *, ctrl_deps: bool = False) -> Workload:
    """Read the traces ``<prefix>.<rank>.et`` of all ranks.

    Args:
        prefix: What the names of the files begin with.
        groups: JSON file with the ranks of each process group, by name; by default ``<prefix>.comm_groups.json`` if it
            exists. Groups that the traces of PyTorch state count where it names none.
        ctrl_deps: Whether to follow control dependencies, too.

    Raises:
        TraceError: If a file is missing or cannot be replayed, with file and node.
    """
    files = _files(prefix)
    groups = groups or next((path for path in [_named(prefix, GROUPS_SUFFIX)] if path.exists()), None)
    named = {} if groups is None else read_groups(groups)
    traces = [read_trace(path, rank) for rank, path in enumerate(files)]
    stated = [recorded_groups(trace, len(traces)) for trace in traces]
    shared = ProcessGroups(named, None if groups is None else str(groups), stated)
    ranks = [tasks_of(trace, shared, len(traces), ctrl_deps=ctrl_deps) for trace in traces]
    for rank in ranks:
        keep_streams_in_order(rank)
    check_matching(ranks)
    left = 0 if ctrl_deps else sum(bool(node.ctrl_deps) for trace in traces for node in trace.nodes)
    return Workload(prefix, ranks, groups, left)


def _named(prefix: Path, suffix: str) -> Path:
    return prefix.parent / f"{prefix.name}{suffix}"


def _files(prefix: Path) -> list[Path]:
    """The file of each rank."""
    found: dict[int, Path] = {}
    pattern = re.compile(re.escape(prefix.name) + r"\.(\d{1,6})\.et(\.gz)?")
    for path in sorted(prefix.parent.glob(f"{escape(prefix.name)}.*.et*")):
        match = pattern.fullmatch(path.name)
        if match is None:
            continue
        rank = int(match[1])
        if rank in found:
            raise TraceError(f"{path}: {found[rank].name} is a trace of rank {rank}, too")
        found[rank] = path
    if not found:
        folder = prefix if prefix.is_dir() else prefix.parent
        known = sorted(match[1] for path in folder.glob("*.0.et*") if (match := _FIRST.fullmatch(path.name)))
        there = f"; in {folder} there are: {', '.join(known[:8])}" if known else ""
        raise TraceError(f"{prefix}: there is no {prefix.name}.0.et; give what all names begin with{there}")
    missing = next((rank for rank in range(max(found) + 1) if rank not in found), None)
    if missing is not None or len(found) > MOST_RANKS:
        what = f"rank {missing} has no file" if missing is not None else f"more than {MOST_RANKS} ranks"
        raise TraceError(f"{_named(prefix, f'.{missing}.et')}: {what}, but ranks up to {max(found)} have one")
    return [found[rank] for rank in range(len(found))]
