"""Where a training iteration goes: one stacked bar by cause for each pipeline stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from simsys.contents.iteration import iteration_parts_s
from simsys.contents.run import RunContent
from simsys.plots.drawing import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PALE,
    PURPLE,
    RED,
    SKY,
    YELLOW,
    few_parts,
    legend_below,
    new_figure,
    time_unit,
    titled,
)
from simsys.plots.kind import kind, needs
from simsys.sums import ordered_sum

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOOKS: Mapping[str, tuple[str, str]] = {
    "compute": (BLUE, ""),
    "forward": (BLUE, ""),
    "backward": (SKY, ""),
    "optimizer": (GREEN, ".."),
    "exposed tensor": (ORANGE, "//"),
    "exposed data": (RED, "\\\\"),
    "exposed pipeline": (PURPLE, "xx"),
    "bubble": (PALE, ""),
    "idle": (PALE, ".."),
}
"""Colour and hatching of the causes that most runs have."""
OTHERS = ((YELLOW, "//"), (GREY, "\\\\"), (ORANGE, "xx"), (PURPLE, ".."), (GREEN, "//"), (GREY, "--"), (SKY, "oo"))
NAMED_STAGES = 16
LEAST_SHARE = 0.07
"""Share of a bar from which on a part has room for its text."""


@kind(
    "iteration_breakdown",
    "where a training iteration goes, by cause and pipeline stage",
    RunContent,
    needs(("training",), "ranks"),
)
def iteration_breakdown(run: RunContent) -> Figure:
    """One bar for each pipeline stage; below it the time of each iteration, if they differ."""
    bars = iteration_parts_s(run.tables)
    times_s = run.tables.get("iterations", {}).get("iteration_s", ())
    differ = len(times_s) > 1 and max(times_s) > 1.001 * min(times_s)
    height_in = max(0.6, min(6.5, 0.34 * len(bars)))
    ratios = {"height_ratios": [height_in, 1.3]} if differ else {}
    figure, panels = new_figure(8.0, height_in + 1.5 + 1.9 * differ, rows=1 + differ, gridspec_kw=ratios)
    _draw_bars(panels[0], bars)
    if differ:
        _draw_times(panels[1], times_s)
    legend_below(figure, panels[0])
    titled(figure, run.name, f"mean iteration of {len(times_s):,}" if len(times_s) > 1 else "one iteration")
    return figure


def looks(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """A colour and a hatching for each cause."""
    others = iter(OTHERS * (1 + len(names) // len(OTHERS)))
    return {name: LOOKS[name] if name in LOOKS else next(others) for name in names}


def _draw_bars(axes: Axes, bars: Mapping[str, Mapping[str, float]]) -> None:
    names = few_parts(bars, 14)
    total_s = max(ordered_sum(parts.values()) for parts in bars.values())
    scale, unit = time_unit(total_s)
    few = len(bars) <= NAMED_STAGES
    start = [0.0] * len(bars)
    for name, (colour, hatch) in looks(names).items():
        widths = [scale * parts.get(name, 0.0) for parts in bars.values()]
        mean = ordered_sum(widths) / len(widths)
        more: dict[str, Any] = {"hatch": hatch, "edgecolor": "white", "linewidth": 0.5} if few else {}
        axes.barh(
            range(len(bars)), widths, left=start, height=0.8 if few else 1.0, color=colour, **more,
            label=f"{name} {mean:.3g} {unit} ({mean / scale / total_s:.1%})",
        )  # fmt: skip
        for place, width in enumerate(widths):
            if few and width > LEAST_SHARE * scale * total_s:
                _write_share(axes, start[place] + width / 2, place, f"{width / scale / total_s:.0%}", hatch, colour)
        start = [before + width for before, width in zip(start, widths, strict=True)]
    if few:
        axes.set_yticks(range(len(bars)), list(bars) if len(bars) > 1 else [""])
    else:
        axes.set_ylabel("pipeline stage")
    axes.invert_yaxis()
    axes.margins(y=0.02 if few else 0.0)
    axes.set(xlabel=f"time ({unit})", xlim=(0.0, 1.01 * scale * total_s))


def _write_share(axes: Axes, x: float, y: float, text: str, hatch: str, colour: str) -> None:
    """The share of a part, on a plain ground where it is hatched."""
    box = {"boxstyle": "square,pad=0.15", "facecolor": colour, "edgecolor": "none"} if hatch else None
    ink = "white" if colour == BLUE else "black"
    axes.text(x, y, text, ha="center", va="center", fontsize=8.0, color=ink, bbox=box)


def _draw_times(axes: Axes, times_s: Sequence[Any]) -> None:
    from matplotlib.ticker import MaxNLocator

    scale, unit = time_unit(max(times_s))
    edges = [place - 0.5 for place in range(len(times_s) + 1)]
    axes.stairs([scale * each for each in times_s], edges, color=INK, linewidth=0.9, baseline=None)
    axes.set(xlabel="iteration", ylabel=unit, xlim=(edges[0], edges[-1]))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
