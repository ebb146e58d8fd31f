"""Pictures of results, as PNG or SVG by the file's ending.

Those of serving alone are in `simsys.report.serving_plots`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from simsys.analysis.bottlenecks import COMMUNICATION_HIGH, COMPUTE_BUSY, MEMORY_RISK, MEMORY_WARNING
from simsys.analysis.scaling_result import ACCEPTABLE_EFFICIENCY, ScalingResult
from simsys.errors import UsageError
from simsys.metrics.result import RunResult
from simsys.report.drawing import (
    BUBBLE,
    CHECKPOINT,
    COMPUTE,
    DATA,
    EXPOSED,
    HIDDEN,
    IDLE,
    LIMIT,
    expect_kind,
    new_figure,
    time_unit,
    write_figure,
)
from simsys.report.serving_plots import plot_latencies, plot_timeline
from simsys.units import GIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_run(result: RunResult, folder: Path) -> list[Path]:
    """Draw all pictures of a run as PNG files in a folder; return the files.

    Raises:
        OutputError: If one could not be written.
    """
    if result.kind == "jobs":
        return [path for job in result.jobs for path in plot_run(job, folder / job.name)]
    utilization = plot_resource_utilization(result, folder / "resource_utilization.png")
    if result.kind == "training":
        memory = [plot_memory(result, folder / "memory.png")] if result.memory_timeline else []
        return [plot_iteration_breakdown(result, folder / "iteration_breakdown.png"), utilization, *memory]
    over_time = [plot_timeline(result, folder / "timeline.png")] if result.timeline else []
    return [plot_latencies(result, folder / "latencies.png"), utilization, *over_time]


def plot_iteration_breakdown(result: RunResult, path: Path) -> Path:
    """Draw the time of every iteration by activity.

    Raises:
        UsageError: If the result is not of training, or the file's ending is unknown.
        OutputError: If the file could not be written.
    """
    expect_kind(result, "training")
    total = result.rows["iteration_s"]
    scale, unit = time_unit(max(total))
    edges = [index - 0.5 for index in range(len(total) + 1)]
    figure, (axes,) = new_figure(7.0, 4.0)
    bottom = [0.0] * len(total)
    parts = {
        "compute_s": (COMPUTE, "computation"),
        "exposed_communication_s": (EXPOSED, "exposed communication"),
        "data_s": (DATA, "waiting for data"),
        "checkpoint_s": (CHECKPOINT, "checkpoint"),
        "bubble_s": (BUBBLE, "bubble (waiting for other stages)"),
        "idle_s": (IDLE, "idle"),
    }
    for column, (color, label) in parts.items():
        if not any(result.rows[column]):
            continue
        top = [below + value * scale for below, value in zip(bottom, result.rows[column], strict=True)]
        axes.stairs(top, edges, baseline=bottom, fill=True, color=color, label=label)
        bottom = top
    axes.set(
        xlabel="iteration", ylabel=f"time ({unit})", title=result.name, ylim=(0.0, None), xlim=(edges[0], edges[-1])
    )
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(loc="lower right")
    return write_figure(figure, path)


def plot_resource_utilization(result: RunResult, path: Path) -> Path:
    """Draw utilisation of GPUs and network, and memory by component, with the thresholds of the analysis.

    Raises:
        UsageError: If the file's ending is unknown.
        OutputError: If the file could not be written.
    """
    figure, (shares, memory) = new_figure(7.0, 4.5, rows=2)
    _draw_shares(shares, result)
    _draw_memory(memory, result)
    return write_figure(figure, path)


def plot_memory(result: RunResult, path: Path) -> Path:
    """Draw memory in use over time on the observed rank of every pipeline stage.

    Raises:
        UsageError: If events were not collected, or the file's ending is unknown.
        OutputError: If the file could not be written.
    """
    columns = result.memory_timeline
    if not columns:
        raise UsageError("memory over time needs simulation.collect_events: true")
    scale, unit = time_unit(result.simulated_s)
    figure, (axes,) = new_figure(7.0, 4.0)
    points = list(zip(columns["rank"], columns["time_s"], columns["in_use_bytes"], strict=True))
    for stage, rank in enumerate(result.ranks["rank"]):
        times, nbytes = zip(*((time_s * scale, size / GIB) for of, time_s, size in points if of == rank), strict=True)
        axes.step(times, nbytes, where="post", linewidth=0.8, label=f"stage {stage}")
    axes.axhline(result.metrics["memory_capacity_bytes"] / GIB, color=LIMIT, linestyle="--", label="capacity")
    axes.set(xlabel=f"time ({unit})", ylabel="memory in use (GiB)", title=result.name, ylim=(0.0, None))
    axes.legend(loc="lower right", fontsize="small")
    return write_figure(figure, path)


def plot_scaling(study: ScalingResult, path: Path) -> Path:
    """Draw throughput with the ideal, and efficiency with its threshold, over the number of GPUs.

    Raises:
        UsageError: If the file's ending is unknown.
        OutputError: If the file could not be written.
    """
    points = [point for point in study.points if not point.problem]
    gpus = [point.gpus for point in points]
    base = study.base
    figure, (throughput, efficiency) = new_figure(9.0, 4.0, columns=2)
    throughput.plot(
        gpus, [(base.samples_per_s or 0.0) * count / base.gpus for count in gpus], "--", color=LIMIT, label="ideal"
    )
    throughput.plot(gpus, [point.samples_per_s for point in points], "o-", color=COMPUTE, label="simulated")
    throughput.set(xlabel="GPUs", ylabel="samples/s", title="throughput", ylim=(0.0, None))
    efficiency.plot(gpus, [100 * (study.efficiency(point) or 0.0) for point in points], "o-", color=COMPUTE)
    efficiency.axhline(100 * ACCEPTABLE_EFFICIENCY, ls="--", color=LIMIT, label=f"{100 * ACCEPTABLE_EFFICIENCY:g} %")
    efficiency.set(xlabel="GPUs", ylabel="efficiency (%)", title="efficiency", ylim=(0.0, None))
    for axes in (throughput, efficiency):
        axes.legend()
        axes.grid(alpha=0.3)
    figure.suptitle(f"{study.name}: {study.mode} scaling")
    return write_figure(figure, path)


def _draw_shares(axes: Axes, result: RunResult) -> None:
    """Busy shares of the whole run as bars."""
    metrics = result.metrics
    bars: list[tuple[str, float, str, float | None]] = [("GPUs computing", metrics["gpu_utilization"], COMPUTE, None)]
    if result.kind == "training":
        communicating = metrics["communication_s"] / metrics["mean_iteration_s"]
        bars = [
            ("GPUs computing", metrics["gpu_utilization"], COMPUTE, COMPUTE_BUSY),
            ("collectives running", communicating, HIDDEN, None),
            ("exposed communication", metrics["exposed_communication_ratio"], EXPOSED, COMMUNICATION_HIGH),
        ]
    for place, (_, share, color, limit) in enumerate(bars):
        axes.barh(place, 100 * share, color=color)
        if limit is not None:
            axes.plot([100 * limit] * 2, [place - 0.45, place + 0.45], "--", color=LIMIT)
    axes.set_yticks(range(len(bars)), [label for label, *_ in bars])
    axes.invert_yaxis()
    dashed = "; dashed: bottleneck threshold" if result.kind == "training" else ""
    axes.set(xlabel=f"share of the time (%){dashed}", title=result.name)
    axes.set_xlim(0.0, max(100.0, *(100 * share for _, share, *_ in bars)))


def _draw_memory(axes: Axes, result: RunResult) -> None:
    """Memory by component as one stacked bar, up to the capacity."""
    capacity = result.metrics["memory_capacity_bytes"] / GIB
    start = 0.0
    for name, nbytes in result.memory_bytes.items():
        if nbytes:
            axes.barh(0, nbytes / GIB, left=start, label=name.replace("_", " "))
            start += nbytes / GIB
    if result.kind == "training":  # a serving engine fills its memory by design
        for share in (MEMORY_WARNING, MEMORY_RISK):
            axes.axvline(share * capacity, ls="--", color=LIMIT)
    axes.set_yticks([0], ["memory"])
    axes.set(xlabel=f"GiB of {capacity:.3g}", xlim=(0.0, max(capacity, start)))
    axes.legend(ncols=4, fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.4))
