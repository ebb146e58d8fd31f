"""Utilisation of GPUs and network, and memory by component, with the thresholds of the analysis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simsys.analysis.bottleneck import COMMUNICATION_HIGH, COMPUTE_BUSY, MEMORY_RISK, MEMORY_WARNING
from simsys.contents.run import RunContent
from simsys.plots.drawing import BLUE, HATCHES, INK, ORANGE, RED, SERIES, few_parts, legend_below, new_figure, titled
from simsys.plots.kind import kind, needs
from simsys.units import GIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@kind(
    "resource_utilization",
    "busy shares of GPUs and network, and peak memory by component",
    RunContent,
    needs(("training", "serving")),
)
def resource_utilization(run: RunContent) -> Figure:
    """Shares of the time above, memory of the fullest GPU below."""
    figure, (shares, memory) = new_figure(8.0, 4.2, rows=2)
    _draw_shares(shares, run)
    _draw_memory(memory, run)
    legend_below(figure, memory)
    titled(figure, run.name)
    return figure


def _draw_shares(axes: Axes, run: RunContent) -> None:
    metrics = run.metrics
    bars: list[tuple[str, float, str, float | None]] = [("GPUs computing", metrics["gpu_utilization"], BLUE, None)]
    if run.kind == "training":
        communicating = metrics["communication_s"] / metrics["mean_iteration_s"]
        bars = [
            ("GPUs computing", metrics["gpu_utilization"], BLUE, COMPUTE_BUSY),
            ("collectives running", communicating, ORANGE, None),
            ("exposed communication", metrics["exposed_communication_ratio"], RED, COMMUNICATION_HIGH),
        ]
    most = max(1.0, *(share for _, share, *_ in bars))
    for place, (_, share, color, limit) in enumerate(bars):
        axes.barh(place, 100 * share, color=color, height=0.6)
        axes.text(100 * share + most, place, f"{share:.1%}".replace("%", " %"), va="center", fontsize=8.0)
        if limit is not None:
            axes.plot([100 * limit] * 2, [place - 0.42, place + 0.42], "--", color=INK)
    axes.set_yticks(range(len(bars)), [label for label, *_ in bars])
    axes.invert_yaxis()
    dashed = "; dashed: a bottleneck from there on" if run.kind == "training" else ""
    axes.set(xlabel=f"share of the time (%){dashed}", xlim=(0.0, 110.0 * most))


def _draw_memory(axes: Axes, run: RunContent) -> None:
    """Memory by component as one stacked bar, up to the capacity."""
    capacity = run.metrics["memory_capacity_bytes"] / GIB
    start = 0.0
    for place, name in enumerate(few_parts({"": run.memory_bytes}, 16)):
        size = run.memory_bytes[name] / GIB
        colour, hatch = SERIES[place % 8], HATCHES[(place + place // 8) % 8]
        label = f"{name.replace('_', ' ')} {size:.3g} GiB"
        axes.barh(0, size, left=start, label=label, color=colour, hatch=hatch, edgecolor="white", linewidth=0.5)
        start += size
    dashed = ""
    if run.kind == "training":  # a serving engine fills its memory by design
        dashed = f"; dashed: {MEMORY_WARNING:.0%} and {MEMORY_RISK:.0%} of it"
        for share in (MEMORY_WARNING, MEMORY_RISK):
            axes.axvline(share * capacity, ls="--", color=INK)
    axes.set_yticks([0], ["fullest GPU"])
    axes.set(xlabel=f"GiB of {capacity:.3g}{dashed}", xlim=(0.0, max(capacity, start)))
