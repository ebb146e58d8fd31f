"""Pictures of serving: latency distributions and time lines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from simsys.errors import UsageError
from simsys.metrics.gaps import Gaps
from simsys.metrics.latencies import Latencies
from simsys.metrics.result import RunResult
from simsys.report.drawing import (
    COMPUTE,
    DATA,
    EXPOSED,
    HIDDEN,
    expect_kind,
    new_figure,
    time_unit,
    write_figure,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from matplotlib.axes import Axes

CDF_POINTS = 1001
"""Levels of a curve for any number of requests: the extremes and every tenth of a percent."""


def plot_latencies(result: RunResult, path: Path) -> Path:
    """Draw the distributions of TTFT, TPOT and end-to-end latency over requests, and of ITL over token gaps.

    Raises:
        UsageError: If the result is not of serving, or the file's ending is unknown.
        OutputError: If the file could not be written.
    """
    import numpy as np

    expect_kind(result, "serving")
    levels = np.linspace(0.0, 100.0, CDF_POINTS)
    curves = _curves(result, levels)
    figure, panels = new_figure(3.3 * len(curves), 3.5, columns=len(curves))
    for axes, (name, seconds) in zip(panels, curves.items(), strict=True):
        axes.set(title=name, ylim=(0.0, 100.0))
        axes.grid(alpha=0.3)
        if not len(seconds):
            axes.text(0.5, 0.5, "no such request", ha="center", transform=axes.transAxes)
            continue
        scale, unit = time_unit(float(seconds[-1]))
        axes.plot(np.asarray(seconds) * scale, levels, color=COMPUTE)
        axes.set_xlabel(unit)
    panels[0].set_ylabel("share (%)")
    figure.suptitle(result.name)
    return write_figure(figure, path)


def plot_timeline(result: RunResult, path: Path) -> Path:
    """Draw throughput, requests waiting and running, the batch, and the KV cache in use over time.

    Raises:
        UsageError: If the result has no timeline, or the file's ending is unknown.
        OutputError: If the file could not be written.
    """
    expect_kind(result, "serving")
    columns = result.timeline
    if not columns:
        raise UsageError(f"{result.name} has no timeline: no step has run")
    scale, unit = time_unit(result.simulated_s)
    edges = [*(time_s * scale for time_s in columns["time_s"]), result.simulated_s * scale]
    figure, panels = new_figure(8.0, 7.5, rows=3)
    tokens, requests, cache = panels
    _draw(tokens, edges, columns["output_tokens_per_s"], "output tokens/s", COMPUTE)
    for name, color in (("waiting", EXPOSED), ("running", COMPUTE), ("batch_size", HIDDEN)):
        _draw(requests, edges, columns[name], name.replace("_", " "), color)
    if "kv_cache_usage" in columns:
        _draw(cache, edges, [100 * share for share in columns["kv_cache_usage"]], "KV cache in use (%)", DATA)
    requests.set_ylabel("requests")
    for axes in panels:
        axes.set(ylim=(0.0, None), xlim=(edges[0], edges[-1]))
        axes.grid(alpha=0.3)
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, fontsize="small", frameon=False)
    cache.set_xlabel(f"time ({unit}), means over {edges[1] - edges[0]:.3g} {unit}")
    figure.suptitle(result.name)
    return write_figure(figure, path)


def _draw(axes: Axes, edges: Sequence[float], values: Sequence[float], label: str, color: str) -> None:
    axes.stairs(values, edges, color=color, label=label, linewidth=0.9, baseline=None)


def _curves(result: RunResult, levels: np.ndarray) -> dict[str, Sequence[float]]:
    """Quantiles in seconds at each level, by name; empty without values."""
    import numpy as np

    log = result.requests
    times = Latencies(result.rows, log.api_s if log is not None else 0.0)
    curves: dict[str, Sequence[float]] = {
        name: np.percentile(seconds, levels).tolist() if seconds.size else []
        for name, seconds in (("TTFT", times.ttft_s), ("TPOT", times.several_tpot_s), ("end to end", times.e2el_s))
    }
    if log is not None:
        gaps = Gaps(log.steps, log.gaps)
        curves["ITL"] = np.percentile(gaps.sample_s(), levels).tolist() if gaps.total else []
    return curves
