"""The page of a sweep: points by state, the best points, and the whole table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from simsys.contents.sweep import SweepContent, frontier, is_number
from simsys.html.blocks import Figure, Figures, Items, Page, Picture, Section, Table
from simsys.html.charts import curves, scatter
from simsys.metrics.definitions import metrics_by_name
from simsys.report.metric_text import name_of
from simsys.version import __version__

PAIRS = (("output_throughput", "p99_ttft_ms"), ("output_throughput", "p50_tpot_ms"))
"""What is drawn against each other: more of the first and less of the second is better."""
BY_SETTING = ("mean_iteration_s", "samples_per_s", "usd_per_million_tokens")
MOST_CURVES = 8
LONGEST_CELL = 120


def sweep_page(sweep: SweepContent) -> Page:
    """Lay out a sweep."""
    columns = sweep.columns
    states = Counter(columns["state"])
    total = len(columns["state"])
    counts = Figures([Figure("points", f"{total:,}"), *(Figure(state, f"{n:,}") for state, n in states.items())])
    text = f"{total:,} points: {', '.join(f'{n:,} {state}' for state, n in states.items())}"
    lost = [f"{n:,} points: {state}" for state, n in states.items() if state not in ("ok", "does not fit", "unfit")]
    long = {name: list(dict.fromkeys(filter(None, column))) for name, column in columns.items() if _is_long(column)}
    shown = {name: column for name, column in columns.items() if name not in long}
    rows = list(zip(*shown.values(), strict=True))
    return Page(
        sweep.name,
        text,
        lost,
        [
            Section("Points", [counts]),
            Section("Pictures", list(_pictures(sweep))),
            Section("All points", [Table("Points", list(map(_head, shown)), rows, data=len(rows) > 60)]),
            *(Section(name_of(name), [Items(texts)]) for name, texts in long.items()),
        ],
        [f"simsys {__version__}"],
    )


def _is_long(column: Sequence[Any]) -> bool:
    """Whether a column has texts that are too long for a cell."""
    return any(isinstance(value, str) and len(value) > LONGEST_CELL for value in column)


def _head(name: str) -> str:
    metric = metrics_by_name().get(name)
    return f"{name} ({metric.unit})" if metric is not None and metric.unit else name


def _pictures(sweep: SweepContent) -> Iterator[Picture]:
    columns, varied = sweep.columns, sweep.varied
    for more, less in PAIRS:
        places = sweep.known(more, less)
        if len(places) > 1:
            pairs = [(columns[more][place], columns[less][place]) for place in places]
            best = set(frontier(pairs))
            points = [
                (x, y, ", ".join(f"{name} {columns[name][place]}" for name in varied), index in best)
                for index, (place, (x, y)) in enumerate(zip(places, pairs, strict=True))
            ]
            caption = (
                f"{name_of(more)} against {name_of(less)}; no other point is better in both than those that are joined"
            )
            yield Picture(caption, scatter(caption, points, _head(more), _head(less)))
    yield from _by_setting(sweep)


def _by_setting(sweep: SweepContent) -> Iterator[Picture]:
    columns, varied = sweep.columns, sweep.varied
    along = next((name for name in varied if all(map(is_number, columns[name]))), None)
    if along is None:
        return
    others = [name for name in varied if name != along]
    for metric in BY_SETTING:
        series: dict[str, list[tuple[float, float]]] = {}
        for place in sweep.known(metric):
            name = ", ".join(f"{other.rpartition('.')[2]} {columns[other][place]}" for other in others)
            series.setdefault(name or metric, []).append((columns[along][place], columns[metric][place]))
        if series and len(series) <= MOST_CURVES and max(map(len, series.values())) > 1:
            caption = f"{name_of(metric)} by {along}"
            ordered = {name: sorted(points) for name, points in series.items()}
            yield Picture(caption, curves(caption, ordered, along, _head(metric)))
