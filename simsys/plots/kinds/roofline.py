"""Roofline: what the passes reach, by their arithmetic intensity, under the limits of the GPU.

The attainable speed is the lesser of the peak and of intensity times memory bandwidth (Williams, Waterman & Patterson
2009, "Roofline: an insightful visual performance model for multicore architectures").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simsys.contents.run import RunContent
from simsys.plots.drawing import BLUE, INK, MARKERS, SERIES, legend_below, logarithmic, new_figure, shortened, titled
from simsys.plots.kind import WITH_PLOTS, kind, needs
from simsys.report.text import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TERA = 1e12


@kind(
    "roofline",
    "arithmetic intensity and speed of the passes, against the limits of the GPU",
    RunContent,
    needs(("training", "serving"), "passes", hint=WITH_PLOTS),
)
def roofline(run: RunContent) -> Figure:
    """One point for each kind of pass; the roofs are those of the data type that has most of the work."""
    table = run.tables["passes"]
    rows: dict[str, tuple[str, float, float, float]] = {}
    for row in zip(*(table[name] for name in ("name", "flop", "nbytes", "seconds")), strict=True):
        if row[1] > 0 and row[2] > 0 and row[3] > 0:
            rows.setdefault(row[0], row)
    peak, bandwidth = table["peak_flop_per_s"][0], table["memory_bytes_per_s"][0]
    ridge = peak / bandwidth
    figure, (axes,) = new_figure(7.0, 5.0)
    intensities = [flop / nbytes for _, flop, nbytes, _ in rows.values()]
    low, high = min([ridge, *intensities]) / 4, max([ridge, *intensities]) * 4
    axes.plot([low, ridge, high], [low * bandwidth / TERA, peak / TERA, peak / TERA], color=INK)
    for place, (name, flop, nbytes, seconds) in enumerate(rows.values()):
        reached, possible = flop / seconds, min(peak, flop / nbytes * bandwidth)
        axes.plot(
            flop / nbytes, reached / TERA, MARKERS[place % len(MARKERS)], color=SERIES[place % 8], markersize=9,
            markeredgecolor=INK, linestyle="none",
            label=f"{shortened(name, 30)}: {number(flop / nbytes)} FLOP/byte, {reached / possible:.0%} of the roof",
        )  # fmt: skip
        axes.plot([flop / nbytes] * 2, [reached / TERA, possible / TERA], ":", color=INK, linewidth=0.8)
    axes.axvline(ridge, color=BLUE, linestyle="--", linewidth=0.9, label=f"ridge: {ridge:.3g} FLOP/byte")
    axes.set(xlim=(low, high), xlabel="arithmetic intensity (FLOP/byte)", ylabel="TFLOP/s")
    for which in "xy":
        logarithmic(axes, which)
    axes.grid(alpha=0.3)
    legend_below(figure, axes)
    device = table["device"][0]
    roofs = f"{peak / TERA:.4g} TFLOP/s {table['dtype'][0]}, {bandwidth / TERA:.3g} TB/s"
    titled(figure, run.name, f"{shortened(device, 30)}: {roofs}")
    return figure
