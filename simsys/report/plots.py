"""Pictures of results, as PNG or SVG by the file's ending.

They are drawn without pyplot, whose figures are global state and need a display's backend. The same result gives the
same bytes.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simsys.errors import UsageError
from simsys.metrics.result import RunResult
from simsys.report.files import write_files
from simsys.units import GIB

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from simsys.analysis.scaling_result import ScalingResult

FORMATS: Mapping[str, Mapping[str, None]] = {".png": {"Software": None}, ".svg": {"Date": None}}
"""File endings, each with the metadata to leave out because it is not the result's."""
DPI = 150
DATA, CHECKPOINT, BUBBLE = "#228833", "#aa3377", "#bbbbbb"
COMPUTE, EXPOSED, HIDDEN, IDLE, LIMIT = "#4477aa", "#cc6677", "#ddaa33", "#e8e8e8", "#666666"
CDF_POINTS = 1001
"""Points of a curve, however many requests there are: the extremes and every tenth of a percent."""


def plot_run(result: RunResult, folder: Path) -> list[Path]:
    """Draw what there is to draw of a run, as PNG files in a folder; return them.

    Raises:
        OutputError: If one could not be written.
    """
    if result.kind == "jobs":
        return [path for job in result.jobs for path in plot_run(job, folder / job.name)]
    utilization = plot_resource_utilization(result, folder / "resource_utilization.png")
    if result.kind == "training":
        memory = [plot_memory(result, folder / "memory.png")] if result.memory_timeline else []
        return [plot_iteration_breakdown(result, folder / "iteration_breakdown.png"), utilization, *memory]
    return [plot_latencies(result, folder / "latencies.png"), utilization]


def plot_iteration_breakdown(result: RunResult, path: Path) -> Path:
    """Draw of what the time of every iteration consists.

    Raises:
        UsageError: If the result is not of training, or the file's ending is unknown.
        OutputError: If the file could not be written.
    """
    _expect(result, "training")
    total = result.rows["iteration_s"]
    scale, unit = _time_unit(max(total))
    edges = [index - 0.5 for index in range(len(total) + 1)]
    figure, (axes,) = _figure(7.0, 4.0)
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
    return _write(figure, path)


def plot_resource_utilization(result: RunResult, path: Path) -> Path:
    """Draw how busy GPUs and network are, and what a GPU's memory holds, beside the thresholds of the analysis.

    Raises:
        UsageError: If the file's ending is unknown.
        OutputError: If the file could not be written.
    """
    figure, (shares, memory) = _figure(7.0, 4.5, rows=2)
    _draw_shares(shares, result)
    _draw_memory(memory, result)
    return _write(figure, path)


def plot_memory(result: RunResult, path: Path) -> Path:
    """Draw what was in use on the observed rank of every pipeline stage over time.

    Raises:
        UsageError: If events were not collected, or the file's ending is unknown.
        OutputError: If the file could not be written.
    """
    columns = result.memory_timeline
    if not columns:
        raise UsageError("memory over time needs simulation.collect_events: true")
    scale, unit = _time_unit(result.simulated_s)
    figure, (axes,) = _figure(7.0, 4.0)
    points = list(zip(columns["rank"], columns["time_s"], columns["in_use_bytes"], strict=True))
    for stage, rank in enumerate(result.ranks["rank"]):
        times, nbytes = zip(*((time_s * scale, size / GIB) for of, time_s, size in points if of == rank), strict=True)
        axes.step(times, nbytes, where="post", linewidth=0.8, label=f"stage {stage}")
    axes.axhline(result.metrics["memory_capacity_bytes"] / GIB, color=LIMIT, linestyle="--", label="capacity")
    axes.set(xlabel=f"time ({unit})", ylabel="memory in use (GiB)", title=result.name, ylim=(0.0, None))
    axes.legend(loc="lower right", fontsize="small")
    return _write(figure, path)


def plot_latencies(result: RunResult, path: Path) -> Path:
    """Draw the distribution functions of TTFT, TPOT and end-to-end latency over the completed requests.

    Raises:
        UsageError: If the result is not of serving, or the file's ending is unknown.
        OutputError: If the file could not be written.
    """
    import numpy as np

    _expect(result, "serving")
    figure, panels = _figure(10.0, 3.5, columns=3)
    levels = np.linspace(0.0, 100.0, CDF_POINTS)
    for axes, (name, seconds) in zip(panels, _latencies(result).items(), strict=True):
        axes.set(title=name, ylim=(0.0, 100.0))
        axes.grid(alpha=0.3)
        if not seconds.size:
            axes.text(0.5, 0.5, "no such request", ha="center", transform=axes.transAxes)
            continue
        scale, unit = _time_unit(float(seconds.max()))
        axes.plot(np.percentile(seconds, levels) * scale, levels, color=COMPUTE)
        axes.set_xlabel(unit)
    panels[0].set_ylabel("requests (%)")
    figure.suptitle(result.name)
    return _write(figure, path)


def plot_scaling(study: ScalingResult, path: Path) -> Path:
    """Draw throughput beside the ideal, and efficiency beside what is acceptable, over the number of GPUs.

    Raises:
        UsageError: If the file's ending is unknown.
        OutputError: If the file could not be written.
    """
    from simsys.analysis.scaling_result import ACCEPTABLE_EFFICIENCY

    points = [point for point in study.points if not point.problem]
    gpus = [point.gpus for point in points]
    base = study.base
    figure, (throughput, efficiency) = _figure(9.0, 4.0, columns=2)
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
    return _write(figure, path)


def _draw_shares(axes: Axes, result: RunResult) -> None:
    """Busy shares of the whole run as bars."""
    from simsys.analysis.bottlenecks import COMMUNICATION_HIGH, COMPUTE_BUSY

    metrics = result.metrics
    bars: list[tuple[str, float, str, float | None]] = [("GPUs computing", metrics["gpu_utilization"], COMPUTE, None)]
    if result.kind == "training":
        communicating = metrics["communication_s"] / metrics["mean_iteration_s"]
        bars = [
            ("GPUs computing", metrics["gpu_utilization"], COMPUTE, COMPUTE_BUSY),
            ("collectives running", communicating, HIDDEN, None),
            ("exposed communication", metrics["communication_ratio"], EXPOSED, COMMUNICATION_HIGH),
        ]
    for place, (_, share, color, limit) in enumerate(bars):
        axes.barh(place, 100 * share, color=color)
        if limit is not None:
            axes.plot([100 * limit] * 2, [place - 0.45, place + 0.45], "--", color=LIMIT)
    axes.set_yticks(range(len(bars)), [label for label, *_ in bars])
    axes.invert_yaxis()
    dashed = "; dashed: a bottleneck from here on" if result.kind == "training" else ""
    axes.set(xlabel=f"share of the time (%){dashed}", title=result.name)
    axes.set_xlim(0.0, max(100.0, *(100 * share for _, share, *_ in bars)))


def _draw_memory(axes: Axes, result: RunResult) -> None:
    """What a GPU holds as one stacked bar, up to what it has."""
    from simsys.analysis.bottlenecks import MEMORY_RISK, MEMORY_WARNING

    capacity = result.metrics["memory_capacity_bytes"] / GIB
    start = 0.0
    for name, nbytes in result.memory_bytes.items():
        if nbytes:
            axes.barh(0, nbytes / GIB, left=start, label=name.replace("_", " "))
            start += nbytes / GIB
    if result.kind == "training":  # a serving engine fills what it may use, by design
        for share in (MEMORY_WARNING, MEMORY_RISK):
            axes.axvline(share * capacity, ls="--", color=LIMIT)
    axes.set_yticks([0], ["memory"])
    axes.set(xlabel=f"GiB of {capacity:.3g}", xlim=(0.0, max(capacity, start)))
    axes.legend(ncols=4, fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.4))


def _latencies(result: RunResult) -> dict[str, np.ndarray]:
    """Seconds of every completed request, with the definitions of `simsys.metrics.serving`."""
    import numpy as np

    def column(name: str) -> np.ndarray:
        return np.array([np.nan if value is None else value for value in result.rows[name]], dtype=float)

    done = np.isfinite(column("finished_s"))
    arrival, first = column("arrival_s")[done], column("first_token_s")[done]
    finished, tokens = column("finished_s")[done], column("output_tokens")[done]
    several = tokens > 1
    decode = (finished - first)[several] / (tokens[several] - 1)
    return {"TTFT": first - arrival, "TPOT": decode, "end to end": finished - arrival}


def _expect(result: RunResult, kind: str) -> None:
    if result.kind != kind:
        raise UsageError(f"this picture is of {kind}, but {result.name} is {result.kind}")


def _time_unit(seconds: float) -> tuple[float, str]:
    """A factor and a unit in which times up to `seconds` are readable."""
    if seconds >= 1.0:
        return 1.0, "s"
    return (1e3, "ms") if seconds >= 1e-3 else (1e6, "µs")


def _figure(width_in: float, height_in: float, rows: int = 1, columns: int = 1) -> tuple[Figure, Sequence[Any]]:
    """A figure and its panels, row by row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_in, height_in), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False)
    return figure, [axes for row in panels for axes in row]


def _write(figure: Figure, path: Path) -> Path:
    """Write a figure whole or not at all; the salt makes the ids inside an SVG the same each time."""
    import matplotlib

    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise UsageError(f"{path.name}: a picture's file ends with {' or '.join(FORMATS)}, not {suffix or 'nothing'}")
    image = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "simsys"}):
        figure.savefig(image, format=suffix[1:], dpi=DPI, metadata=dict(FORMATS[suffix]))
    write_files(path.parent, {path.name: lambda file: file.buffer.write(image.getvalue())})
    return path
