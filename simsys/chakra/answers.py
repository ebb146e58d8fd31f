"""Exported and replayed traces as text, data and files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from simsys.chakra.config import ReplayConfig
from simsys.chakra.export import ExportedTraces
from simsys.chakra.nodes import NodeType
from simsys.chakra.reading import Workload
from simsys.chakra.replay import read_traces, replay
from simsys.chakra.tasks import GpuWork, Join
from simsys.metrics.result import RunResult
from simsys.report.csv_table import write_columns
from simsys.report.export import json_text
from simsys.report.files import write_files
from simsys.report.text import percent, row, time, wrap
from simsys.sums import ordered_sum
from simsys.units import Dimension, pretty


@dataclass(frozen=True)
class ExportAnswer:
    """The exported traces of one scenario.

    Args:
        traces: The traces.
        files: The files written.
    """

    traces: ExportedTraces
    files: Sequence[Path]

    def text(self) -> str:
        """A line about the traces, and the first and the last files."""
        found = self.traces
        head = (
            f"{found.name}: {found.num_nodes:,} nodes of {len(found.traces):,} ranks, process groups: "
            f"{len(found.groups):,}; iteration {found.traces[0].metadata['iteration']} lasts {time(found.iteration_s)}"
        )
        shown = [str(path) for path in self.files]
        return "\n".join([head, *(f"  {path}" for path in (shown[:1] + ["…"] * (len(shown) > 3) + shown[-2:]))])

    def as_dict(self) -> dict[str, Any]:
        """The same as data for JSON."""
        return {
            "name": self.traces.name,
            "ranks": len(self.traces.traces),
            "nodes": self.traces.num_nodes,
            "groups": len(self.traces.groups),
            "iteration_s": self.traces.iteration_s,
            "files": [str(path) for path in self.files],
        }


@dataclass(frozen=True)
class WorkloadAnswer:
    """A summary of traces.

    Args:
        workload: The traces.
    """

    workload: Workload

    def as_dict(self) -> dict[str, Any]:
        """Ranks, nodes by type, times of computations, and collectives by process group."""
        ranks = self.workload.ranks
        types = Counter(task.node.type for rank in ranks for task in rank.tasks)
        compute_s = [
            ordered_sum(task.action.duration_s for task in rank.tasks if isinstance(task.action, GpuWork))
            for rank in ranks
        ]
        return {
            "traces": str(self.workload.prefix),
            "ranks": len(ranks),
            "nodes": self.workload.num_nodes,
            "types": {NodeType(number).name: count for number, count in sorted(types.items())},
            "compute_s": {"least": min(compute_s), "most": max(compute_s)},
            "metadata": dict(self.workload.metadata),
            "collectives": list(self._collectives()),
            "warnings": self.workload.warnings,
        }

    def _collectives(self) -> Iterator[dict[str, Any]]:
        """Number and bytes of the collectives of each kind and group, as the first rank of the group calls them."""
        found: dict[tuple[Any, str], list[float]] = {}
        for number, rank in enumerate(self.workload.ranks):
            for task in rank.tasks:
                action = task.action
                if isinstance(action, Join) and action.group.ranks[0] == number:
                    found.setdefault((action.group, action.kind.value), []).append(action.nbytes)
        for (group, kind), sizes in found.items():
            whole = {"count": len(sizes), "nbytes": ordered_sum(sizes)}
            yield {"kind": kind, "ranks": list(group.ranks), "axis": group.axis, **whole}

    def text(self) -> str:
        """The same for people."""
        found = self.as_dict()
        lines = [f"{found['traces']}: {found['nodes']:,} nodes of {found['ranks']:,} ranks, complete and matching", ""]
        lines += row("nodes", ", ".join(f"{count:,} {name}" for name, count in found["types"].items()))
        least, most = (time(found["compute_s"][which]) for which in ("least", "most"))
        lines += row("computation", f"{least if least == most else f'{least} to {most}'} on each GPU")
        kinds: dict[tuple[str, str, int], list[Mapping[str, Any]]] = {}
        for each in found["collectives"]:
            kinds.setdefault((each["kind"], each["axis"], len(each["ranks"])), []).append(each)
        for (kind, axis, size), members in kinds.items():
            count, nbytes = (ordered_sum(each[name] for each in members) for name in ("count", "nbytes"))
            groups = f"{len(members):,} group{'s' if len(members) > 1 else ''} of {size} ({axis})"
            lines += row(kind, f"{count:,} in {groups}, {pretty(nbytes, Dimension.BYTES)}")
        lines += [line for each in self.workload.warnings for line in wrap(each, "  warning: ", "    ")]
        stated = "; ".join(f"{name} {value}" for name, value in found["metadata"].items())
        lines += row("stated", stated) if stated else []
        return "\n".join(lines)


@dataclass(frozen=True)
class ReplayAnswer:
    """The result of a replay.

    Args:
        result: The result.
        recorded_s: Duration of the iteration when it was recorded, if the traces state it.
        files: The files written.
    """

    result: RunResult
    recorded_s: float | None = None
    files: Sequence[Path] = ()

    @property
    def headline(self) -> str:
        """The answer in one line."""
        metrics, recorded = self.result.metrics, ""
        if self.recorded_s:
            recorded = f", {metrics['mean_iteration_s'] / self.recorded_s - 1:+.1%} against the recorded run"
        return (
            f"{self.result.name}: {time(metrics['mean_iteration_s'])} per replay of {self.result.world_size:,} "
            f"ranks{recorded.replace('%', ' %')}, communication exposed "
            f"{percent(metrics['exposed_communication_ratio'])}"
        )

    def text(self) -> str:
        """The answer for people, in lines of at most 80 columns."""
        metrics = self.result.metrics
        lines = [self.headline, *(line for each in self.result.warnings for line in wrap(each, "  warning: ", "    "))]
        lines.append("")
        lines += row("replay", f"{time(metrics['mean_iteration_s'])} (mean of {metrics['iterations']:,})")
        lines += row("computation", f"{time(metrics['compute_s'])} on rank 0")
        exposed = f"{time(metrics['exposed_communication_s'])} exposed"
        lines += row("communication", f"{time(metrics['communication_s'])}, {exposed}")
        parts = ", ".join(f"{axis} {time(seconds)}" for axis, seconds in self.result.exposed_s.items() if seconds)
        lines += row("  exposed", parts) if parts else []
        waiting_s = metrics["bubble_s"] + metrics["idle_s"]
        lines += row("waiting", f"{time(waiting_s)} for other ranks") if waiting_s else []
        lines += row("GPUs", f"busy for {percent(metrics['gpu_utilization'])} of the time")
        lines += ["", "assumptions"]
        lines += [line for each in self.result.assumptions for line in wrap(each, "  - ", "    ")]
        lines += ["", "files", *(f"  {path}" for path in self.files)] if self.files else []
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """The answer for programs."""
        recorded = {} if self.recorded_s is None else {"recorded_iteration_s": self.recorded_s}
        return {**self.result.as_dict(), **recorded, "files": [str(path) for path in self.files]}


def replayed(config: ReplayConfig, folder: Path | None = None) -> ReplayAnswer:
    """Replay traces, and write the results if there is a folder for them; raises as `replay` and `write_replay`."""
    workload = read_traces(config)
    result = replay(config, workload=workload)
    stated = workload.metadata.get("iteration_s")
    files = [] if folder is None else write_replay(config, result, folder)
    return ReplayAnswer(result, stated if isinstance(stated, float) else None, files)


def write_replay(config: ReplayConfig, result: RunResult, folder: Path) -> list[Path]:
    """Write the results of a replay into ``folder/<name>``.

    Files are ``<name>_results.json``, and the tables ``<name>_iterations.csv``, ``<name>_ranks.csv``,
    ``<name>_gpus.csv`` and ``<name>_links.csv``.

    Raises:
        OutputError: If one could not be written; none is left half-written.
    """
    tables = {"iterations": result.rows, "ranks": result.ranks, "gpus": result.gpus, "links": result.links}
    return write_files(
        folder / config.name,
        {
            f"{config.name}_results.json": lambda file: file.write(json_text(result.as_dict())),
            **{
                f"{config.name}_{name}.csv": partial(write_columns, table=table)
                for name, table in tables.items()
                if any(table.values())
            },
        },
    )
