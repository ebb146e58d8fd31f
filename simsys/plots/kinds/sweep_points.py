"""Points of a sweep: latency over throughput with the knee, and metrics by setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from simsys.contents.sweep import SweepContent, frontier, is_number
from simsys.plots.drawing import (
    DASHES,
    INK,
    MARKERS,
    RED,
    SERIES,
    legend_below,
    logarithmic,
    new_figure,
    shortened,
    titled,
)
from simsys.plots.kind import kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

THROUGHPUT = "output_throughput"
LATENCIES = {"p99_ttft_ms": "TTFT p99 (ms)", "p50_tpot_ms": "TPOT p50 (ms)"}
BY_SETTING = {
    "mean_iteration_s": "iteration (s)",
    "samples_per_s": "samples/s",
    THROUGHPUT: "output tokens/s",
    "p99_ttft_ms": "TTFT p99 (ms)",
}
MOST_SERIES = 8
LONG_RANGE = 12.0
"""Ratio of the greatest value of an axis to the least one from which on the axis is logarithmic."""


def _lacks_load(sweep: SweepContent) -> str:
    if any(len(sweep.known(THROUGHPUT, name)) > 1 for name in LATENCIES):
        return ""
    return (
        f"needs at least two points with {THROUGHPUT} and {' or '.join(LATENCIES)}, which {sweep.name} does not have"
    )


@kind("throughput_latency", "latency over throughput, with the knee of the curve", SweepContent, _lacks_load)
def throughput_latency(sweep: SweepContent) -> Figure:
    """One curve for each combination of the settings other than the first; the knee and the Pareto front are marked.

    The knee is the point with the most throughput per latency, the maximum of "power" (Kleinrock 1979, "Power and
    deterministic rules of thumb for probabilistic problems in computer communications").
    """
    panels = {name: text for name, text in LATENCIES.items() if len(sweep.known(THROUGHPUT, name)) > 1}
    figure, axes = new_figure(4.7 * len(panels), 4.6, columns=len(panels))
    for panel, (name, text) in zip(axes, panels.items(), strict=True):
        rows = sweep.known(THROUGHPUT, name)
        points = {row: (sweep.columns[THROUGHPUT][row], sweep.columns[name][row]) for row in rows}
        _draw_series(panel, series_of(sweep, rows), points)
        best = [rows[place] for place in frontier(list(points.values()))]
        panel.plot(
            *zip(*(points[row] for row in best), strict=True), "o", markersize=10, fillstyle="none", color=INK,
            markeredgewidth=0.8, label="no other is better in both",
        )  # fmt: skip
        knee = points[
            max((row for row in rows if points[row][1] > 0), key=lambda row: points[row][0] / points[row][1])
        ]
        panel.plot(*knee, "*", markersize=15, color=RED, markeredgecolor=INK, label="knee (most tokens/s per ms)")
        text_of_knee = f"{knee[0]:,.0f}/s at {knee[1]:.3g} ms"
        panel.annotate(text_of_knee, knee, (-9, 6), textcoords="offset points", fontsize=8, ha="right")
        panel.set(xlabel="output tokens/s", ylabel=text)
        _fit(panel, [y for _, y in points.values()])
    legend_below(figure, axes[0])
    titled(figure, sweep.name)
    return figure


def _along(sweep: SweepContent) -> str | None:
    """The setting along which a sweep is drawn: the first one of numbers, else the first."""
    varied = sweep.varied
    return next((name for name in varied if all(is_number(number(each)) for each in sweep.columns[name])), None) or (
        varied[0] if varied else None
    )


def _lacks_setting(sweep: SweepContent) -> str:
    if not sweep.varied:
        return f"needs a setting that varies; {sweep.name} has none"
    if len(series_of(sweep, range(len(sweep.columns["state"])))) > MOST_SERIES:
        return f"shows at most {MOST_SERIES} curves, and {sweep.name} has more combinations of settings"
    return "" if _metrics(sweep) else f"needs a simulated point of {', '.join(BY_SETTING)}; {sweep.name} has none"


@kind("by_setting", "metrics by the first setting of a sweep", SweepContent, _lacks_setting)
def by_setting(sweep: SweepContent) -> Figure:
    """One panel for each metric, one curve for each combination of the other settings."""
    metrics, along = _metrics(sweep), _along(sweep)
    assert along is not None  # as `_lacks_setting` has found
    figure, axes = new_figure(4.7 * len(metrics), 4.4, columns=len(metrics))
    for panel, name in zip(axes, metrics, strict=True):
        rows = sweep.known(name)
        points = {row: (number(sweep.columns[along][row]), sweep.columns[name][row]) for row in rows}
        _draw_series(panel, series_of(sweep, rows), points)
        panel.set(xlabel=_short(along), ylabel=BY_SETTING[name])
        _fit(panel, [y for _, y in points.values()])
    legend_below(figure, axes[0])
    titled(figure, sweep.name)
    return figure


def _metrics(sweep: SweepContent) -> list[str]:
    return [name for name in BY_SETTING if sweep.known(name)][:2]


def series_of(sweep: SweepContent, rows: Sequence[int]) -> dict[str, list[int]]:
    """Rows by the values of the settings other than the first, in order of the first."""
    along = _along(sweep)
    others = [name for name in sweep.varied if name != along]
    series: dict[str, list[int]] = {}
    for row in rows:
        label = ", ".join(f"{_short(name)} {shortened(sweep.columns[name][row], 24)}" for name in others)
        series.setdefault(label, []).append(row)
    column = sweep.columns[along] if along is not None else []
    return {
        label: sorted(own, key=lambda row: (str, float)[is_number(number(column[row]))](number(column[row])))
        if along is not None and len({is_number(number(column[row])) for row in own}) == 1
        else own
        for label, own in series.items()
    }


def _draw_series(axes: Axes, series: Mapping[str, Sequence[int]], points: Mapping[int, tuple[Any, Any]]) -> None:
    many = len(series) > MOST_SERIES
    for place, (label, rows) in enumerate(series.items()):
        look: dict[str, Any] = {
            "color": SERIES[place % 8],
            "linestyle": DASHES[place % 8],
            "marker": MARKERS[place % 11],
        }
        if many:
            look = {"color": SERIES[0], "linestyle": "none", "marker": "."}
        xs, ys = zip(*(points[row] for row in rows), strict=True)
        axes.plot(xs, ys, markersize=4, linewidth=1.1, label=None if many else label or None, **look)


def _fit(axes: Axes, values: Sequence[float]) -> None:
    if min(values) > 0 and max(values) > LONG_RANGE * min(values):
        axes.set_ylim(min(values) / 1.4, max(values) * 1.4)
        logarithmic(axes, "y")
    else:
        axes.set_ylim(0.0, 1.12 * max(values) or None)
    axes.grid(alpha=0.3)


def number(value: Any) -> float | str:
    """A number, or the number of a quantity such as ``8 req/s``; else the text.

    Example:
        >>> number("8 req/s"), number(3), number("H100-SXM")
        (8.0, 3.0, 'H100-SXM')
    """
    try:
        return float(str(value).partition(" ")[0])
    except ValueError:
        return str(value)


def _short(path: str) -> str:
    return path.rpartition(".")[2]
