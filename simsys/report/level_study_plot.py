"""Comparison of the levels of detail as a picture: speed-up against error, one point per scenario."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simsys.report.drawing import COMPUTE, EXPOSED, HIDDEN, LIMIT, new_figure, write_figure

COLORS = {"serving": COMPUTE, "training": EXPOSED, "jobs": HIDDEN}
LEAST = 1e-16
"""Position of a zero difference on the logarithmic axis."""


def plot_comparison(data: Mapping[str, Any], path: Path) -> Path:
    """Draw the speed-up of medium over high against its largest difference.

    Args:
        data: See `simsys.level_study.study`.
        path: The file.

    Raises:
        UsageError: If the file's ending is unknown.
        OutputError: If the file could not be written.
    """
    figure, (axes,) = new_figure(8.0, 5.0)
    for kind, color in COLORS.items():
        rows = [row for row in data["scenarios"] if row["kind"] == kind]
        if rows:
            errors = [max(row["largest_difference"], LEAST) for row in rows]
            axes.scatter(errors, [row["cpu_speedup"] for row in rows], color=color, label=kind)
    for row in data["scenarios"]:
        place = max(row["largest_difference"], LEAST), row["cpu_speedup"]
        axes.annotate(row["name"], place, (4, 3), textcoords="offset points", fontsize="x-small")
    axes.set(xscale="log", yscale="log", xlim=(LEAST / 3, 1.0))
    axes.axvline(1e-6, ls="--", color=LIMIT, label="equal but for rounding (1e-6)")
    axes.axhline(100.0, ls=":", color=LIMIT, label="a hundredth of the time")
    axes.set(xlabel="largest difference of any figure from high", ylabel="times less CPU time")
    axes.set_title("medium over high")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", loc="upper right")
    return write_figure(figure, path)
