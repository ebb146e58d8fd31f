"""The pictures of a run: where the time goes, memory, latencies, and the course of the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from simsys.html.blocks import Picture
from simsys.html.charts import curves, stacked_bars
from simsys.html.results import RunContent

GIB = float(1 << 30)
LATENCY_PARTS = {"queue": "mean_queue_ms", "prefill": "mean_prefill_ms", "decode": "mean_decode_ms"}
LEVELS = 200
"""Points of a distribution."""


def pictures(run: RunContent) -> Iterator[Picture]:
    """The pictures that the tables of a run allow."""
    if run.kind == "training":
        yield from _training(run)
    elif run.kind == "serving":
        yield from _serving(run)
    memory = run.result.get("memory_bytes") or {}
    if memory:
        parts = {name.replace("_", " "): nbytes / GIB for name, nbytes in memory.items()}
        caption = "Memory of the fullest GPU at its peak, by component"
        yield Picture(caption, stacked_bars(caption, {"peak": parts}, "GiB"))


def _training(run: RunContent) -> Iterator[Picture]:
    ranks = run.tables.get("ranks")
    if ranks and ranks.get("rank"):
        caption = "Time of an iteration by cause, on the first rank of each pipeline stage"
        yield Picture(caption, stacked_bars(caption, _iteration_parts(ranks), "ms"))
    iterations = run.tables.get("iterations", {}).get("iteration_s", ())
    if len(iterations) > 2 and max(iterations) > 1.001 * min(iterations):
        caption = "Time of each iteration"
        points = [(float(place), 1e3 * seconds) for place, seconds in enumerate(iterations)]
        yield Picture(caption, curves(caption, {"iteration": points}, "iteration", "ms"))


def _iteration_parts(ranks: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    """The parts of an iteration in ms, by stage; computation without the optimizer, which is a part of its own."""
    parts = [name for name in ranks if name.endswith("_s") and name != "compute_s"]
    bars: dict[str, dict[str, float]] = {}
    for place, (rank, stage) in enumerate(zip(ranks["rank"], ranks["stage"], strict=True)):
        optimizer_s = ranks["optimizer_s"][place] if "optimizer_s" in ranks else 0.0
        own = {"compute": 1e3 * (ranks["compute_s"][place] - optimizer_s)}
        own |= {name.removesuffix("_s").replace("_", " "): 1e3 * ranks[name][place] for name in parts}
        bars[f"stage {stage}, rank {rank}"] = own
    return bars


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


def latencies_ms(requests: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """TTFT, TPOT and end-to-end latency of the completed requests, in ms."""
    found: dict[str, list[float]] = {"ttft": [], "tpot": [], "e2el": []}
    names = ("arrival_s", "first_token_s", "finished_s", "output_tokens")
    for arrival_s, first_s, finished_s, tokens in zip(*(requests[name] for name in names), strict=True):
        if first_s is None or finished_s is None:
            continue
        found["ttft"].append(1e3 * (first_s - arrival_s))
        found["e2el"].append(1e3 * (finished_s - arrival_s))
        if tokens > 1:
            found["tpot"].append(1e3 * (finished_s - first_s) / (tokens - 1))
    return found


def distribution(values: Sequence[float]) -> list[tuple[float, float]]:
    """Quantiles of sorted values: value and share in percent, at evenly spaced levels."""
    last = len(values) - 1
    places = range(last + 1) if last < LEVELS else (round(last * step / LEVELS) for step in range(LEVELS + 1))
    return [(values[place], 100.0 * (place + 1) / len(values)) for place in places]


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
