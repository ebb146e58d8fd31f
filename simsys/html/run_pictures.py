"""The pictures of a run: where the time goes, memory, latencies, and the course of the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from simsys.contents.iteration import iteration_parts_s
from simsys.contents.latencies import distribution, latencies_ms
from simsys.contents.run import RunContent
from simsys.html.blocks import Picture
from simsys.html.charts import curves, stacked_bars

GIB = float(1 << 30)
LATENCY_PARTS = {"queue": "mean_queue_ms", "prefill": "mean_prefill_ms", "decode": "mean_decode_ms"}


def pictures(run: RunContent) -> Iterator[Picture]:
    """The pictures that the tables of a run allow."""
    if run.kind == "training":
        yield from _training(run)
    elif run.kind == "serving":
        yield from _serving(run)
    memory = run.memory_bytes
    if memory:
        parts = {name.replace("_", " "): nbytes / GIB for name, nbytes in memory.items()}
        caption = "Memory of the fullest GPU at its peak, by component"
        yield Picture(caption, stacked_bars(caption, {"peak": parts}, "GiB"))


def _training(run: RunContent) -> Iterator[Picture]:
    ranks = run.tables.get("ranks")
    if ranks and ranks.get("rank"):
        caption = "Time of an iteration by cause, on the first rank of each pipeline stage"
        bars = {
            bar: {name: 1e3 * seconds for name, seconds in parts.items()}
            for bar, parts in iteration_parts_s(run.tables).items()
        }
        yield Picture(caption, stacked_bars(caption, bars, "ms"))
    iterations = run.tables.get("iterations", {}).get("iteration_s", ())
    if len(iterations) > 2 and max(iterations) > 1.001 * min(iterations):
        caption = "Time of each iteration"
        points = [(float(place), 1e3 * seconds) for place, seconds in enumerate(iterations)]
        yield Picture(caption, curves(caption, {"iteration": points}, "iteration", "ms"))


def _serving(run: RunContent) -> Iterator[Picture]:
    metrics = run.metrics
    parts = {name: metrics.get(key) for name, key in LATENCY_PARTS.items()}
    known = {name: value for name, value in parts.items() if value}
    if known:
        caption = "Mean time of a request by phase"
        yield Picture(caption, stacked_bars(caption, {"request": known}, "ms"))
    requests = run.tables.get("requests")
    if requests:
        yield from _distributions(run, requests)
    line = run.tables.get("timeline")
    if line and len(line.get("time_s", ())) > 1:
        yield from _course(line)


def _distributions(run: RunContent, requests: Mapping[str, Sequence[float]]) -> Iterator[Picture]:
    found = latencies_ms(requests)
    for name, key in (("TTFT", "ttft"), ("TPOT", "tpot"), ("end-to-end latency", "e2el")):
        values = sorted(found[key])
        if len(values) < 2 or values[-1] <= 0:
            continue
        marks = {p: run.metrics[f"{p}_{key}_ms"] for p in ("p50", "p99") if run.metrics.get(f"{p}_{key}_ms")}
        if run.metrics.get(f"slo_{key}_ms"):
            marks["SLO"] = run.metrics[f"slo_{key}_ms"]
        caption = f"Distribution of {name} over requests"
        yield Picture(caption, curves(caption, {name: distribution(values)}, "ms", "share (%)", log=True, marks=marks))


def _course(line: Mapping[str, Sequence[float]]) -> Iterator[Picture]:
    groups = (
        ("Requests over time", ("running", "waiting", "batch_size"), "requests", 1.0),
        ("Output tokens over time", ("output_tokens_per_s",), "tokens/s", 1.0),
        ("KV cache in use over time", ("kv_cache_usage",), "share (%)", 100.0),
    )
    times_s = line["time_s"]
    for caption, names, unit, factor in groups:
        series = {
            name.replace("_", " "): [
                (time_s, factor * value) for time_s, value in zip(times_s, line[name], strict=True)
            ]
            for name in names
            if name in line
        }
        if series:
            yield Picture(caption, curves(caption, series, "s", unit))
