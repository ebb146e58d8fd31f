"""The picture of a sweep in which one or two settings vary: throughput against latency, or metrics by setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from simsys.report.drawing import EXPOSED, new_figure, write_figure
from simsys.sweeps.store import Store
from simsys.sweeps.table import table_of

THROUGHPUT = "output_throughput"
LATENCIES = {"p99_ttft_ms": "TTFT p99 (ms)", "p50_tpot_ms": "TPOT p50 (ms)"}
BY_SETTING = {"mean_iteration_s": "iteration (s)", "samples_per_s": "samples/s"}
MOST_SERIES = 12
_MARKERS = "os^vD<>ph*XP"


def plot_sweep(store: Store, path: Path) -> Path | None:
    """Draw a sweep.

    Serving is drawn as latency over throughput, one curve for each value of the second setting, with the points of
    which no other one has both more throughput and less latency (Pareto) ringed. Training is drawn by the first
    setting.

    Args:
        store: The store.
        path: The file to write, ``.png`` or ``.svg``.

    Returns:
        The file; None if not one or two settings vary, or nothing can be drawn.
    """
    table = table_of(store, [*LATENCIES, THROUGHPUT, *BY_SETTING])
    varied = [name for name in store.paths() if len(set(map(str, table[name]))) > 1]
    if not 1 <= len(varied) <= 2:
        return None
    numeric = [name for name in varied if all(isinstance(_number(value), float) for value in table[name])]
    along = numeric[0] if numeric else varied[0]
    other = next((name for name in varied if name != along), None)
    rows = [index for index, state in enumerate(table["state"]) if state == "ok"]
    series: dict[Any, list[int]] = {}
    for index in rows:
        series.setdefault(table[other][index] if other is not None else "", []).append(index)
    serving = any(table[THROUGHPUT][index] is not None for index in rows)
    panels = {name: text for name, text in (LATENCIES if serving else BY_SETTING).items() if _known(table, name, rows)}
    if not panels or len(series) > MOST_SERIES:
        return None
    figure, axes = new_figure(4.5 * len(panels), 3.8, columns=len(panels))
    for panel, (name, text) in zip(axes, panels.items(), strict=True):
        for marker, (value, indexes) in zip(_MARKERS, series.items(), strict=False):
            x = table[THROUGHPUT] if serving else [_number(each) for each in table[along]]
            drawn = [index for index in indexes if table[name][index] is not None and x[index] is not None]
            label = None if other is None else f"{_short(other)} {value}"
            points = [x[index] for index in drawn], [table[name][index] for index in drawn]
            panel.plot(*points, marker=marker, markersize=4, label=label)
        panel.set(xlabel="output tokens/s" if serving else _short(along), ylabel=text)
        panel.grid(alpha=0.3)
        if serving:
            best = frontier([(table[THROUGHPUT][i], table[name][i]) for i in rows if table[name][i] is not None])
            panel.plot(*zip(*best, strict=True), "o", markersize=9, fillstyle="none", color=EXPOSED, label="Pareto")
    if other is not None or serving:
        axes[0].legend(fontsize="small")
    figure.suptitle(store.meta()["name"])
    return write_figure(figure, path)


def frontier(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points with more of the first or less of the second value than every other point, by the first value.

    Example:
        >>> frontier([(1.0, 5.0), (2.0, 4.0), (3.0, 9.0), (2.5, 9.5)])
        [(2.0, 4.0), (3.0, 9.0)]
    """
    found: list[tuple[float, float]] = []
    for most, least in sorted(set(points), key=lambda each: (-each[0], each[1])):
        if not found or least < found[-1][1]:
            found.append((most, least))
    return found[::-1]


def _known(table: Mapping[str, Sequence[Any]], name: str, rows: Sequence[int]) -> bool:
    return any(table[name][index] is not None for index in rows)


def _number(value: Any) -> float | str:
    """A number, or the number of a quantity such as ``8 req/s``."""
    try:
        return float(str(value).partition(" ")[0])
    except ValueError:
        return str(value)


def _short(path: str) -> str:
    return path.rpartition(".")[2]
