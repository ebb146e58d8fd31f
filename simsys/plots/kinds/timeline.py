"""Tokens, batch and KV cache of a serving run over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simsys.contents.run import RunContent
from simsys.plots.drawing import BLUE, DASHES, GREEN, INK, ORANGE, new_figure, time_unit, titled
from simsys.plots.kind import kind, needs

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@kind("timeline", "throughput, requests, batch and KV cache over time", RunContent, needs(("serving",), "timeline"))
def timeline(run: RunContent) -> Figure:
    """Means over intervals of output tokens, of requests waiting and running, of the batch, and of the KV cache."""
    columns = run.tables["timeline"]
    ended_s = run.result["simulated_s"]
    scale, unit = time_unit(ended_s)
    edges = [*(time_s * scale for time_s in columns["time_s"]), ended_s * scale]
    figure, panels = new_figure(8.0, 7.0, rows=3, sharex=True)
    tokens, requests, cache = panels
    tokens.stairs(columns["output_tokens_per_s"], edges, color=BLUE, linewidth=0.9, baseline=None)
    tokens.set_ylabel("output tokens/s")
    looks = {"running": BLUE, "batch_size": GREEN, "waiting": ORANGE}
    for (name, colour), dashes in zip(looks.items(), DASHES, strict=False):
        label = name.replace("_", " ")
        requests.stairs(
            columns[name], edges, color=colour, label=label, linewidth=1.1, baseline=None, linestyle=dashes
        )
    requests.set_ylabel("requests")
    requests.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3)
    if "kv_cache_usage" in columns:
        shares = [100 * share for share in columns["kv_cache_usage"]]
        cache.stairs(shares, edges, color=GREEN, linewidth=0.9, baseline=None)
        if max(shares) > 50.0:
            cache.axhline(100.0, color=INK, linestyle="--", linewidth=0.8)
    cache.set_ylabel("KV cache in use (%)")
    for axes in panels:
        axes.set(ylim=(0.0, None), xlim=(edges[0], edges[-1]))
        axes.grid(alpha=0.3)
    width = edges[1] - edges[0]
    cache.set_xlabel(f"time ({unit}), means over {width:.3g} {unit}")
    titled(figure, run.name)
    return figure
