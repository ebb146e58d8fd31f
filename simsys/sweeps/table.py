"""The table of a sweep: settings, headline metrics, cost, and whether a point fits and meets its targets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, TypeAlias

from simsys.errors import UnknownNameError
from simsys.metrics.definitions import metrics_by_name
from simsys.metrics.result import SHOWN
from simsys.sweeps.evaluate import OK, UNFIT, Row
from simsys.sweeps.points import Point, canonical
from simsys.sweeps.statistics import half_width, mean
from simsys.sweeps.store import Store

Columns: TypeAlias = Mapping[str, Sequence[Any]]
COSTS = ("usd_per_hour", "usd_per_million_tokens")
MISSING = "missing"
"""State of a point that has not run yet."""
ALL = "all"
_HEADLINE: Mapping[str, tuple[str, ...]] = {
    **SHOWN,
    "serving": (*SHOWN["serving"], "p99_ttft_ms", "p99_tpot_ms", "output_throughput"),
    "training": (*SHOWN["training"], "tokens_per_s_per_gpu", "peak_memory_bytes"),
}


@dataclass(frozen=True)
class _Run:
    """One point with what is known of it."""

    point: Point
    row: Row | None
    figures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def state(self) -> str:
        return MISSING if self.row is None else self.row.state

    def metric(self, name: str) -> Any:
        if name == "num_gpus" or name in COSTS:
            return self.figures.get(name, self.figures.get("metrics", {}).get(name))
        return self.figures.get("metrics", {}).get(name)


def table_of(store: Store, metrics: Sequence[str] = (), *, each_seed: bool = False) -> dict[str, list[Any]]:
    """The table of a sweep, as columns of one length, in the order of its points.

    Repeats of a point with other seeds are one row: the mean of each metric, and half the width of its 95 % confidence
    interval in the column ``<metric>_ci95``.

    Args:
        store: The store.
        metrics: The metrics; by default those of the section ``sweep``, else the headline; ``all`` is all metrics.
        each_seed: Give each repeat a row of its own.

    Raises:
        UnknownNameError: If there is no such metric.
    """
    sweep = json.loads(store.meta().get("description", "{}")).get("sweep", {})
    runs = [_run(point, row) for point, row in store.points()]
    repeated = any(run.point.seed is not None for run in runs)
    merged = repeated and not each_seed
    groups = [list(group) for _, group in groupby(runs, _settings)] if merged else [[run] for run in runs]
    names = _chosen(metrics or sweep.get("metrics") or (), runs)
    columns: dict[str, list[Any]] = {path: [] for path in store.paths()}
    for group in groups:
        values = group[0].point.values
        for path, value in zip(store.paths(), values, strict=True):
            columns[path].append(value if isinstance(value, int | float | str) else canonical(value))
        cells = {
            **({"seed": group[0].point.seed} if repeated and each_seed else {}),
            **({"runs": sum(run.state == OK for run in group)} if merged else {}),
            **dict(_cells(group, names, merged=merged)),
        }
        for name, cell in cells.items():
            columns.setdefault(name, []).append(cell)
    return columns


def _run(point: Point, row: Row | None) -> _Run:
    return _Run(point, row, json.loads(row.figures) if row is not None and row.figures else {})


def _settings(run: _Run) -> str:
    return canonical(run.point.values)


def _chosen(metrics: Sequence[str], runs: Iterable[_Run]) -> list[str]:
    """The metrics of the columns."""
    runs = [run for run in runs if run.figures]
    found = dict.fromkeys(name for run in runs for name in run.figures["metrics"])
    known = [*metrics_by_name(), *(name for name in found if name not in metrics_by_name())]  # of the user's own, too
    for name in metrics:
        if name != ALL and name not in known:
            raise UnknownNameError("metric", name, known)
    if ALL in metrics:
        return [name for name in known if name in found]
    kinds = list(dict.fromkeys(run.figures["kind"] for run in runs))
    return list(metrics) or [name for kind in kinds for name in _HEADLINE.get(kind, ())]


def _cells(group: Sequence[_Run], names: Sequence[str], *, merged: bool) -> Iterator[tuple[str, Any]]:
    """Name and value of the cells of a row after the settings."""
    first = next((run for run in group if run.state != OK), group[0])
    good = [run for run in group if run.state == OK]
    yield "state", first.state
    yield "fits", None if first.state not in (OK, UNFIT) else first.state == OK
    for name in dict.fromkeys(("num_gpus", *names, *COSTS)):
        values = [value for run in good if (value := run.metric(name)) is not None]
        yield name, (values[0] if len(set(values)) == 1 else mean(values)) if values else None
        if merged and name in names:
            yield f"{name}_ci95", half_width(values)
    yield "meets_slo", _meets(good)
    yield "expected_error", good[0].figures["expected_error"] if good else None
    warnings = dict.fromkeys(text for run in good for text in run.figures["warnings"])
    yield "warnings", "; ".join(warnings)
    yield "reason", first.row.reason if first.row is not None else ""


def _meets(good: Sequence[_Run]) -> bool | None:
    """Whether the SLO is met in all runs; None without one."""
    met = [value for run in good if (value := run.metric("slo_met")) is not None]
    return all(met) if met else None
