"""Memory in use over time, by component."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from simsys.contents.run import RunContent
from simsys.plots.drawing import (
    DASHES,
    HATCHES,
    INK,
    SERIES,
    few_parts,
    legend_below,
    new_figure,
    time_unit,
    titled,
)
from simsys.plots.kind import WITH_PLOTS, kind
from simsys.sums import ordered_sum
from simsys.units import GIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KV_CACHE = "kv_cache"


def _lacks(run: RunContent) -> str:
    if run.kind == "serving" and KV_CACHE in run.memory_bytes and run.tables.get("timeline"):
        return ""
    if run.kind == "training" and (run.tables.get("held") or run.tables.get("memory")):
        return ""
    return f"needs the memory in use over time, which is not known of {run.name}; {WITH_PLOTS}"


@kind("memory", "memory in use over time, by component", RunContent, _lacks)
def memory(run: RunContent) -> Figure:
    """The GPU with the highest peak; with totals alone, one line for each stage."""
    if run.kind == "serving":
        return _of_serving(run)
    if not run.tables.get("held"):
        return _totals(run)
    table = run.tables["held"]
    names = [name for name in table if name not in ("stage", "rank", "time_s")]
    totals = [ordered_sum(sizes) for sizes in zip(*(table[name] for name in names), strict=True)]
    fullest = table["rank"][totals.index(max(totals))]
    rows = [row for row, rank in enumerate(table["rank"]) if rank == fullest]
    parts = {name: [table[name][row] for row in rows] for name in names}
    times_s = [table["time_s"][row] for row in rows]
    return _stacked(run, times_s, max(table["time_s"]), parts, f"rank {fullest}, the fullest GPU, one iteration")


def _of_serving(run: RunContent) -> Figure:
    """The KV cache in use over the other components, which do not change."""
    line = run.tables["timeline"]
    parts: dict[str, Sequence[float]] = {
        name: [size] * len(line["time_s"]) for name, size in run.memory_bytes.items() if name != KV_CACHE
    }
    size = run.memory_bytes[KV_CACHE]
    parts["kv cache in use"] = [size * share for share in line.get("kv_cache_usage", [1.0] * len(line["time_s"]))]
    return _stacked(run, line["time_s"], run.result["simulated_s"], parts, "mean over the replicas")


def _stacked(
    run: RunContent, times_s: Sequence[float], end_s: float, parts: Mapping[str, Sequence[float]], subject: str
) -> Figure:
    figure, axes = _axes(run, end_s)
    scale, _ = time_unit(end_s)
    edges = [*(scale * each for each in times_s), scale * max(end_s, times_s[-1])]
    names = few_parts({name: {name: max(values)} for name, values in parts.items()}, 16)
    floor = [0.0] * len(times_s)
    for place, name in enumerate(names):
        top = [below + value / GIB for below, value in zip(floor, parts[name], strict=True)]
        hatch = HATCHES[(place + place // 8) % 8]
        axes.stairs(
            top, edges, baseline=floor, fill=True, color=SERIES[place % 8], hatch=hatch, edgecolor="white",
            linewidth=0.0, label=f"{name.replace('_', ' ')} ({max(parts[name]) / GIB:.3g} GiB)",
            rasterized=len(times_s) > 1000,
        )  # fmt: skip
        floor = top
    axes.set_ylim(0.0, max(1.05 * max(floor), run.metrics["memory_capacity_bytes"] / GIB * 1.05))
    legend_below(figure, axes)
    titled(figure, run.name, subject)
    return figure


def _totals(run: RunContent) -> Figure:
    """One line for each stage."""
    columns, ranks = run.tables["memory"], run.tables["ranks"]
    end_s = run.result["simulated_s"]
    figure, axes = _axes(run, end_s)
    scale, _ = time_unit(end_s)
    points = list(zip(columns["rank"], columns["time_s"], columns["in_use_bytes"], strict=True))
    for place, (stage, rank) in enumerate(zip(ranks["stage"], ranks["rank"], strict=True)):
        own: Sequence[Any] = [(time_s * scale, size / GIB) for of, time_s, size in points if of == rank]
        times, sizes = zip(*own, strict=True) if own else ((), ())
        look: dict[str, Any] = {"color": SERIES[place % 8], "linestyle": DASHES[place % 8]}
        label = f"stage {stage}" if place < 16 else None
        axes.step(times, sizes, where="post", linewidth=0.9, label=label, **look)
    axes.set_ylim(0.0, None)
    legend_below(figure, axes)
    titled(figure, run.name)
    return figure


def _axes(run: RunContent, end_s: float) -> tuple[Figure, Axes]:
    figure, (axes,) = new_figure(8.0, 4.6)
    scale, unit = time_unit(end_s)
    axes.axhline(run.metrics["memory_capacity_bytes"] / GIB, color=INK, linestyle="--", label="capacity")
    axes.set(xlabel=f"time ({unit})", ylabel="GiB", xlim=(0.0, scale * end_s))
    return figure, axes
