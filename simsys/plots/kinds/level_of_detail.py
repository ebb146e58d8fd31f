"""Comparison of the levels of detail as a picture: speed-up against error, one point per scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simsys.contents.printed import Printed
from simsys.plots.drawing import (
    BLUE,
    INK,
    MARKERS,
    ORANGE,
    RED,
    legend_below,
    logarithmic,
    new_figure,
    shortened,
    write_names,
)
from simsys.plots.kind import kind, of_command

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = {"serving": BLUE, "training": RED, "jobs": ORANGE}
LEAST = 1e-16
"""Position of a zero difference on the logarithmic axis."""


@kind("level_of_detail", "speed-up and error of medium against high", Printed, of_command("lod"))
def level_of_detail(found: Printed) -> Figure:
    """The speed-up of medium over high against its largest difference (`simsys.level_study.study`)."""
    figure, (axes,) = new_figure(8.0, 5.4)
    rows = found.data["scenarios"]
    for marker, (kind_of, color) in zip(MARKERS, COLORS.items(), strict=False):
        own = [row for row in rows if row["kind"] == kind_of]
        if own:
            errors = [max(row["largest_difference"], LEAST) for row in own]
            axes.scatter(errors, [row["cpu_speedup"] for row in own], color=color, label=kind_of, marker=marker)
    axes.set_xlim(LEAST / 3, 1.0)
    logarithmic(axes, "x")
    logarithmic(axes, "y")
    axes.axvline(1e-6, ls="--", color=INK, label="equal but for rounding (1e-6)")
    axes.axhline(100.0, ls=":", color=INK, label="a hundredth of the time")
    axes.set(xlabel="largest difference of any figure from high", ylabel="times less CPU time")
    axes.set_title("medium over high")
    axes.grid(alpha=0.3)
    names = [(shortened(row["name"], 32), max(row["largest_difference"], LEAST), row["cpu_speedup"]) for row in rows]
    write_names(axes, names, 7.2, 4.0)
    legend_below(figure, axes)
    return figure
