"""Requests of a serving run as bars: waiting, prefill and decode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from simsys.contents.run import RunContent
from simsys.plots.drawing import BLUE, INK, ORANGE, RED, SKY, legend_below, new_figure, rectangles, time_unit, titled
from simsys.plots.kind import kind, needs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 120
"""Requests of a picture; of more, those around the one that waited longest for its first token."""
PHASES = (
    ("waiting", "arrival_s", "admitted_s", ORANGE, "////"),
    ("prefill", "admitted_s", "first_token_s", BLUE, ""),
    ("decode", "first_token_s", "finished_s", SKY, ""),
)


@kind("requests", "each request: waiting, prefill and decode", RunContent, needs(("serving",), "requests"))
def requests(run: RunContent) -> Figure:
    """One bar for each request, in order of arrival."""
    table = run.tables["requests"]
    shown = _window(table)
    times = [table[name][row] for row in shown for name in ("arrival_s", "finished_s")]
    begin_s, end_s = (pick((t for t in times if t is not None), default=0.0) for pick in (min, max))
    scale, unit = time_unit(end_s)
    height_in = max(1.0, min(7.0, 0.11 * len(shown)))
    figure, (axes,) = new_figure(8.0, height_in + 1.6)
    for label, since, until, colour, hatch in PHASES:
        spans = [
            (scale * table[since][row], scale * table[until][row], place, 0.85)
            for place, row in enumerate(shown)
            if table[since][row] is not None and table[until][row] is not None
        ]
        rectangles(
            axes,
            spans,
            facecolor=colour,
            hatch=hatch,
            edgecolor="white" if hatch else "none",
            linewidth=0.0,
            label=label,
        )
    lost = [place for place, row in enumerate(shown) if table["finished_s"][row] is None]
    if lost:
        xs = [scale * (table["arrival_s"][shown[place]] or 0.0) for place in lost]
        axes.plot(xs, lost, "x", color=RED, markersize=5, label="not completed")
    again = [place for place, row in enumerate(shown) if table["preemptions"][row]]
    if again:
        xs = [scale * (table["first_token_s"][shown[place]] or table["arrival_s"][shown[place]]) for place in again]
        axes.plot(xs, again, "v", color=INK, markersize=3, label="preempted")
    axes.set(xlabel=f"time ({unit})", ylabel="request", ylim=(len(shown) - 0.4, -0.6))
    step = max(1, len(shown) // 6)
    axes.set_yticks(range(0, len(shown), step), [str(shown[place]) for place in range(0, len(shown), step)])
    axes.set_xlim(scale * begin_s, scale * end_s if end_s > begin_s else None)
    legend_below(figure, axes)
    titled(figure, run.name, _subject(len(table["arrival_s"]), shown))
    return figure


def _window(table: Mapping[str, Sequence[Any]]) -> Sequence[int]:
    """The rows that are shown."""
    waits = [
        (first_s - arrival_s if first_s is not None else 0.0)
        for arrival_s, first_s in zip(table["arrival_s"], table["first_token_s"], strict=True)
    ]
    if len(waits) <= MOST:
        return range(len(waits))
    longest = waits.index(max(waits))
    begin = min(max(0, longest - MOST // 2), len(waits) - MOST)
    return range(begin, begin + MOST)


def _subject(total: int, shown: Sequence[int]) -> str:
    if len(shown) == total:
        return f"{total:,} requests" if total != 1 else "1 request"
    return f"requests {shown[0]:,} to {shown[-1]:,} of {total:,}, around the one with the longest TTFT"
