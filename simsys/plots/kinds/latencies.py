"""Distributions of the latencies of requests, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from simsys.contents.latencies import distribution, latencies_ms
from simsys.contents.run import RunContent
from simsys.plots.drawing import BLUE, INK, RED, logarithmic, new_figure, titled
from simsys.plots.kind import kind, needs
from simsys.report.text import milliseconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL, of token gaps", "e2el": "end to end"}
LEAST_MS = 1e-6
"""Place of shorter latencies on a logarithmic axis."""


@kind(
    "latencies", "distributions of TTFT, TPOT, ITL and end-to-end latency", RunContent, needs(("serving",), "requests")
)
def latencies(run: RunContent) -> Figure:
    """Cumulative distributions with p50, p99 and the target."""
    curves = _curves(run)
    figure, panels = new_figure(8.0, 6.4, rows=2, columns=2)
    for axes, (key, points) in zip(panels, curves.items(), strict=False):
        axes.set(title=NAMES[key], ylim=(0.0, 102.0))
        if not points:
            axes.text(0.5, 0.5, "no such request", ha="center", transform=axes.transAxes)
            axes.set(xticks=[], yticks=[])
            continue
        xs = [max(value, LEAST_MS) for value, _ in points]
        axes.plot(xs, [share for _, share in points], color=BLUE)
        _mark(axes, run, key, xs)
        axes.set(xlabel="ms", ylabel="share (%)")
        axes.grid(alpha=0.3)
    for axes in panels[len(curves) :]:
        axes.set_axis_off()
    titled(figure, run.name)
    return figure


def _mark(axes: Axes, run: RunContent, key: str, xs: Sequence[float]) -> None:
    """Mark percentiles and the target, and fit the axis to them."""
    marks = [(f"{p} {milliseconds(run.metrics[name])}", run.metrics[name], INK, dashes)
             for p, dashes in (("p50", "--"), ("p99", ":")) if run.metrics.get(name := f"{p}_{key}_ms")]  # fmt: skip
    if target := run.metrics.get(f"slo_{key}_ms"):
        marks.append((f"SLO {milliseconds(target)}", target, RED, "-"))
    low = max(min(xs), 1e-3 * max(xs))
    values = [low, max(xs), *(value for _, value, *_ in marks if value)]
    axes.set_xlim(min(values) / 1.2, max(values) * 1.2)
    logarithmic(axes, "x")
    for text, value, colour, dashes in marks:
        axes.axvline(value, color=colour, linestyle=dashes, linewidth=1.1, label=text)
    if marks:
        axes.legend(
            loc="lower right" if marks[0][1] ** 2 < min(values) * max(values) else "upper left",
            frameon=True,
            framealpha=0.85,
            edgecolor="none",
        )


def _curves(run: RunContent) -> Mapping[str, Sequence[tuple[float, float]]]:
    """Quantiles in ms by name; empty without values."""
    found = latencies_ms(run.tables["requests"])
    curves = {key: distribution(sorted(values)) for key, values in found.items()}
    gaps = run.tables.get("gaps")
    if gaps:
        curves["itl"] = list(zip(gaps["itl_ms"], gaps["share_percent"], strict=True))
    return {key: curves[key] for key in NAMES if key in curves}
