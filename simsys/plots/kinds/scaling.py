"""Scaling of training: throughput and efficiency over the number of GPUs, on axes of powers of two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from simsys.analysis.scaling_result import ACCEPTABLE_EFFICIENCY, ScalingResult
from simsys.contents.printed import Printed
from simsys.contents.sweep import SweepContent
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
from simsys.plots.kind import kind, of_command

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Points = Sequence[tuple[int, float]]
"""Numbers of GPUs and their throughput, in order."""
SIZES = ("num_gpus", "num_nodes")
MOST_SERIES = 8
_IS_STUDY = of_command("scale")


def _lacks(content: SweepContent | Printed) -> str:
    if isinstance(content, Printed):
        return _IS_STUDY(content)
    return _lacks_sizes(content)


def _lacks_sizes(sweep: SweepContent) -> str:
    if not any(len(points) > 1 for points in _series(sweep).values()):
        return f"needs a sweep of training over numbers of GPUs; {sweep.name} is none"
    return ""


@kind("scaling_efficiency", "throughput and efficiency over the number of GPUs", (SweepContent, Printed), _lacks)
def of_content(content: SweepContent | Printed) -> Figure:
    """One curve for each study, or for each combination of the other settings of a sweep."""
    if isinstance(content, Printed):
        return scaling_efficiency(content.name, {study["mode"]: _points(study) for study in content.data["studies"]})
    series = {label: points for label, points in _series(content).items() if len(points) > 1}
    return scaling_efficiency(content.name, dict(list(series.items())[:MOST_SERIES]))


def _points(study: Mapping[str, Any]) -> Points:
    rows = study["rows"]
    return [(gpus, rate) for gpus, rate in zip(rows["gpus"], rows["samples_per_s"], strict=True) if rate]


def of_study(study: ScalingResult) -> Figure:
    """The points of a scaling study that could be simulated."""
    points = [(point.gpus, point.samples_per_s or 0.0) for point in study.points if not point.problem]
    return scaling_efficiency(study.name, {"simulated": points}, f"{study.mode} scaling")


def scaling_efficiency(name: object, series: Mapping[str, Points], subject: str = "") -> Figure:
    """Throughput with the ideal, and efficiency with its threshold, relative to the smallest size of each curve."""
    figure, (throughput, efficiency) = new_figure(9.0, 4.6, columns=2)
    sizes = sorted({gpus for points in series.values() for gpus, _ in points})
    least = 1.0
    for place, (label, points) in enumerate(series.items()):
        look = {"color": SERIES[place % 8], "marker": MARKERS[place % 11], "markersize": 5}
        (base, rate), gpus = points[0], [gpus for gpus, _ in points]
        ideal = [rate * each / base for each in gpus]
        throughput.plot(gpus, ideal, ":", color=INK, linewidth=1.0, label="ideal" if not place else None)
        throughput.plot(gpus, [each for _, each in points], linestyle=DASHES[place % 8], label=label, **look)
        shares = [each / best if best else 0.0 for (_, each), best in zip(points, ideal, strict=True)]
        efficiency.plot(gpus, [100 * share for share in shares], linestyle=DASHES[place % 8], **look)
        least = min(least, *shares)
    efficiency.axhline(100 * ACCEPTABLE_EFFICIENCY, ls="--", color=RED, label="70 %: breakdown below")
    low = max(0.0, 100 * min(least, ACCEPTABLE_EFFICIENCY) - 8.0)
    efficiency.set(ylabel="efficiency (%)", ylim=(low, 105.0), title="throughput per GPU over the smallest size")
    throughput.set(ylabel="samples/s", title="throughput")
    rates = [rate for points in series.values() for _, rate in points if rate > 0]
    throughput.set_ylim(min(rates, default=1.0) / 1.3, max(rates, default=1.0) * 1.5)
    logarithmic(throughput, "y")
    for axes in (throughput, efficiency):
        _sizes_across(axes, sizes)
    efficiency.legend(loc="lower left")
    legend_below(figure, throughput)
    titled(figure, name, subject)
    return figure


def _sizes_across(axes: Axes, sizes: Sequence[int]) -> None:
    """A horizontal axis of powers of two with the sizes as ticks; of many, some."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_xscale("log", base=2)
    step = 1 + (len(sizes) - 1) // 8
    axes.xaxis.set_major_locator(FixedLocator(sizes[::step]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set(xlabel="GPUs", xlim=(sizes[0] / 1.2, sizes[-1] * 1.2))
    axes.grid(alpha=0.3)


def _series(sweep: SweepContent) -> dict[str, Points]:
    """Throughput by number of GPUs, by the settings that do not change it; one point per size is the best."""
    rows = sweep.known("num_gpus", "samples_per_s")
    gpus, rates = sweep.columns.get("num_gpus", ()), sweep.columns.get("samples_per_s", ())
    others = [name for name in sweep.varied if name.rpartition(".")[2] not in (*SIZES, "dp_degree")]
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        values = [f"{name.rpartition('.')[2]} {shortened(sweep.columns[name][row], 20)}" for name in others]
        own = found.setdefault(", ".join(values) or "simulated", {})
        own[int(gpus[row])] = max(rates[row], own.get(int(gpus[row]), 0.0))
    return {label: sorted(points.items()) for label, points in found.items()}
