"""Candidates of a search or a sweep: the Pareto front, and what each setting is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simsys.contents.printed import Printed
from simsys.contents.sweep import SweepContent, frontier, is_number
from simsys.metrics.definitions import metrics_by_name
from simsys.plots.drawing import BLUE, GREY, INK, ORANGE, RED, legend_below, logarithmic, new_figure, shortened, titled
from simsys.plots.kind import kind, of_command
from simsys.report.metric_text import name_of
from simsys.units import GIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAIRS = (
    ("output_throughput", "p99_ttft_ms"),
    ("served_requests_per_s", "usd_per_million_tokens"),
    ("goodput", "usd_per_hour"),
    ("samples_per_s", "peak_memory_bytes"),
    ("tokens_per_s", "usd_per_hour"),
    ("tokens_per_s_per_gpu", "peak_memory_bytes"),
    ("mfu", "peak_memory_bytes"),
)
"""Metrics against each other, more of the first and less of the second being better."""
GOALS = {"samples_per_s": True, "output_throughput": True, "mean_iteration_s": False, "p99_ttft_ms": False}
"""What settings are judged by in a sweep, and whether more is better."""
MOST_SETTINGS, MOST_VALUES = 12, 12


@dataclass(frozen=True)
class Candidates:
    """What is drawn: settings and metrics of each candidate.

    Args:
        name: Title.
        goal: Metric by which settings are judged, empty if none is known.
        largest: True if more of it is better.
        settings: Settings of each candidate.
        metrics: Metrics of each candidate.
    """

    name: str
    goal: str
    largest: bool
    settings: Sequence[Mapping[str, Any]]
    metrics: Sequence[Mapping[str, Any]]

    @property
    def pair(self) -> tuple[str, str] | None:
        """The first pair of metrics that at least two candidates have."""
        return next((pair for pair in PAIRS if len(self.points(pair)) > 1), None)

    def points(self, pair: tuple[str, str]) -> list[tuple[float, float]]:
        """The candidates by a pair of metrics."""
        return [
            (each[pair[0]], each[pair[1]]) for each in self.metrics if all(is_number(each.get(name)) for name in pair)
        ]


def _of_search(found: Printed) -> Candidates:
    best, goal = found.data["best"], found.data["goal"]
    settings, metrics = ([each[key] for each in best] for key in ("settings", "metrics"))
    return Candidates(found.name, str(goal["metric"]), goal["direction"] == "maximize", settings, metrics)


def _of_sweep(sweep: SweepContent) -> Candidates:
    rows = [row for row, state in enumerate(sweep.columns["state"]) if state == "ok"]
    names = [name for name in sweep.columns if name not in sweep.settings]
    goal = next((name for name in GOALS if len(sweep.known(name)) > 1), "")
    return Candidates(
        sweep.name, goal, GOALS.get(goal, False),
        [{name: sweep.columns[name][row] for name in sweep.varied} for row in rows],
        [{name: sweep.columns[name][row] for name in names} for row in rows],
    )  # fmt: skip


def _candidates(content: Printed | SweepContent) -> Candidates:
    return _of_sweep(content) if isinstance(content, SweepContent) else _of_search(content)


_IS_SEARCH = of_command("search")


def _lacks_pair(content: Any) -> str:
    if isinstance(content, Printed) and (other := _IS_SEARCH(content)):
        return other
    if _candidates(content).pair is None:
        pairs = ", ".join(f"{more} and {less}" for more, less in PAIRS)
        return f"needs at least two candidates with one of these pairs of metrics: {pairs}"
    return ""


def _lacks_settings(content: Any) -> str:
    if isinstance(content, Printed) and (other := _IS_SEARCH(content)):
        return other
    return "" if _spreads(_candidates(content)) else "needs candidates with different values of a setting"


@kind("pareto", "the candidates that no other one beats in two metrics", (SweepContent, Printed), _lacks_pair)
def pareto(content: Printed | SweepContent) -> Figure:
    """All candidates, and the front of those of which no other is better in both."""
    found = _candidates(content)
    assert found.pair is not None  # as `_lacks_pair` has found
    more, less = found.pair
    scales = [GIB if name.endswith("_bytes") else 1.0 for name in found.pair]
    points = [(x / scales[0], y / scales[1]) for x, y in found.points(found.pair)]
    front = [points[place] for place in frontier(points)]
    figure, (axes,) = new_figure(6.6, 4.8)
    axes.plot(*zip(*points, strict=True), "o", color=GREY, markersize=4, label=f"{len(points):,} candidates")
    axes.plot(
        *zip(*front, strict=True), "D-", color=BLUE, markersize=6, markeredgecolor=INK, linewidth=1.2,
        drawstyle="steps-post", label=f"{len(front):,} that no other one beats in both",
    )  # fmt: skip
    axes.set(xlabel=_head(more).replace("bytes", "GiB"), ylabel=_head(less).replace("bytes", "GiB"))
    for which, values in zip("xy", zip(*points, strict=True), strict=True):
        if min(values) > 0 and max(values) > 30 * min(values):
            logarithmic(axes, which)
    axes.grid(alpha=0.3)
    legend_below(figure, axes)
    titled(figure, found.name)
    return figure


@kind(
    "sensitivity", "what each setting is worth: the best candidate by value", (SweepContent, Printed), _lacks_settings
)
def sensitivity(content: Printed | SweepContent) -> Figure:
    """For each value of each setting the best candidate that has it, over the best of all; widest range first."""
    found = _candidates(content)
    spreads = _spreads(found)
    shown = dict(sorted(spreads.items(), key=lambda item: -_range(item[1]))[:MOST_SETTINGS])
    figure, (axes,) = new_figure(8.0, 1.5 + 0.62 * len(shown))
    for place, values in enumerate(shown.values()):
        ratios = list(values.values())
        axes.plot([min(ratios), max(ratios)], [place, place], color=GREY, linewidth=3.0, zorder=1)
        best = min(values, key=lambda value: abs(values[value] - 1.0))
        for value, ratio in values.items():
            colour, marker, size, above = (RED, "*", 90, 3) if value == best else (ORANGE, "o", 30, 2)
            look: dict[str, Any] = {"s": size, "color": colour, "marker": marker, "zorder": above}
            axes.scatter([ratio], [place], edgecolors=INK, linewidths=0.6, **look)
    _write_values(axes, list(shown.values()), max(map(_range, shown.values())))
    axes.set_yticks(range(len(shown)), [shortened(name.rpartition(".")[2], 28) for name in shown])
    axes.set(xlabel=f"best {_head(found.goal)} with this value, over the best of all", ylim=(len(shown) - 0.4, -0.6))
    axes.margins(x=0.12)
    axes.grid(alpha=0.3, axis="x")
    titled(figure, found.name, f"{len(found.settings):,} candidates; star: the value of the best one")
    return figure


def _write_values(axes: Axes, rows: Sequence[Mapping[str, float]], widest: float) -> None:
    """The values below their points, except where they would cover each other."""
    room = widest / 60 or 1.0
    for place, values in enumerate(rows):
        until = float("-inf")
        for value, ratio in sorted(values.items(), key=lambda item: item[1]):
            text = shortened(value, 14)
            half = room * (1 + len(text)) / 2
            if ratio - half > until:
                axes.text(ratio, place + 0.2, text, ha="center", va="top", fontsize=7.5)
                until = ratio + half


def _spreads(found: Candidates) -> dict[str, dict[str, float]]:
    """By setting and value, the goal of the best candidate over that of the best of all."""
    rows = [
        (settings, metrics[found.goal])
        for settings, metrics in zip(found.settings, found.metrics, strict=True)
        if is_number(metrics.get(found.goal)) and metrics[found.goal] > 0
    ]
    if not rows:
        return {}
    pick = max if found.largest else min
    best = pick(value for _, value in rows)
    spreads: dict[str, dict[str, float]] = {}
    for name in dict.fromkeys(name for settings, _ in rows for name in settings):
        values: dict[str, list[float]] = {}
        for settings, value in rows:
            values.setdefault(str(settings.get(name)), []).append(value)
        if len(values) > 1:
            ordered = sorted(((value, pick(each) / best) for value, each in values.items()), key=lambda item: item[1])
            spreads[name] = dict(_spaced(ordered, MOST_VALUES))
    return spreads


def _spaced(items: Sequence[tuple[str, float]], most: int) -> Sequence[tuple[str, float]]:
    """At most as many items, among them the first and the last one."""
    if len(items) <= most:
        return items
    return [items[round(place * (len(items) - 1) / (most - 1))] for place in range(most)]


def _range(values: Mapping[str, float]) -> float:
    return max(values.values()) - min(values.values())


def _head(metric: str) -> str:
    known = metrics_by_name().get(metric)
    return f"{name_of(metric)} ({known.unit})" if known is not None and known.unit else name_of(metric)
