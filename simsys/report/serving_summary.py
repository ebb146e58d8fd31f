"""The figures of a serving run as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simsys.metrics.saturation import BACKLOGGED, OVERLOADED, STABLE
from simsys.report.economics import serving_economics
from simsys.report.text import LABEL, milliseconds, number, percent, row, share, time
from simsys.serving.kv_tier import TIER_KINDS
from simsys.units import Dimension, pretty

_COLUMNS = ("mean", "p50", "p90", "p95", "p99")
_TIMES = {
    "TTFT": "ttft",
    "TPOT": "tpot",
    "ITL": "itl",
    "E2E": "e2el",
    "queue": "queue",
    "prefill": "prefill",
    "decode": "decode",
}
NAMED_SHARE = 0.01
"""The headline names the most frequent reason from this share of rejected requests on."""
_WHY = {
    STABLE: "mean queueing < service time",
    BACKLOGGED: "mean queueing > service time",
    OVERLOADED: "the queue grows while requests arrive",
}


def serving_lines(metrics: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a serving run, at most 80 columns wide."""
    yield f"  {'ms':<{LABEL}}" + "".join(f"{column:>12}" for column in _COLUMNS)
    for label, name in _TIMES.items():
        values = (metrics[f"{column}_{name}_ms"] for column in _COLUMNS)
        yield f"  {label:<{LABEL}}" + "".join(f"{number(value):>12}" for value in values)
    yield ""
    if metrics["saturation"] is not None:
        yield from row("load", _load(metrics))
    yield from row("throughput", _throughput(metrics))
    yield from row("batch", _batch(metrics))
    if metrics["prefix_cache_queries"]:
        yield from row("prefix cache", _prefix_cache(metrics))
    if "kv_reused_share" in metrics:
        yield from row("decode", f"{percent(metrics['kv_reused_share'])} of prompt tokens reused where they decode")
    if "kv_loads" in metrics:
        yield from row("KV tiers", _tiers(metrics))
    if "image_tokens" in metrics:
        yield from row("images", _images(metrics))
    if metrics["request_goodput"] is not None:
        yield from row("goodput", _goodput(metrics))
    if metrics.get("slo_met") is not None:
        yield from row("SLO", f"missed: {metrics['slo_missed']}" if metrics["slo_missed"] else "met")
    if metrics.get("completed_sessions"):
        yield from row("sessions", _session_times(metrics))
    yield from row("requests", _requests(metrics))
    if metrics["completed"]:
        yield from serving_economics(metrics)


def load_text(metrics: Mapping[str, Any]) -> str:
    """Offered and served rate and the losses, for the headline; the served rate alone if no rate is offered."""
    offered_per_s, served = metrics["offered_requests_per_s"], f"{number(metrics['served_requests_per_s'])} req/s"
    parts = ["OVERLOADED (latencies grow with the length of the run)"] if metrics["overloaded"] else []
    if offered_per_s is None:
        parts.append(served)
    elif not metrics["steady"]:
        parts.append(f"{served} over the whole run, {number(offered_per_s)} req/s offered")
    elif metrics["served_share"] < 1.0:
        parts.append(f"{share(metrics['served_share'])} of {number(offered_per_s)} req/s served")
    else:
        parts.append(f"{served} offered and served")
    if metrics["rejected_share"]:
        why = f" ({next(iter(metrics['rejected_by_reason']))})" if metrics["rejected_share"] >= NAMED_SHARE else ""
        parts.append(f"{share(metrics['rejected_share'])} rejected{why}")
    if metrics.get("cancelled_share"):
        parts.append(f"{share(metrics['cancelled_share'])} cancelled")
    if metrics["preempted_share"]:
        parts.append(f"{share(metrics['preempted_share'])} preempted")
    return ", ".join(parts)


def _load(metrics: Mapping[str, Any]) -> str:
    label = metrics["saturation"]
    text = f"{label}: {_WHY[label]}"
    if metrics["offered_requests_per_s"] is not None and metrics["steady"]:
        offered, served = (number(metrics[f"{which}_requests_per_s"]) for which in ("offered", "served"))
        text = f"{label}, {served} of {offered} req/s served: {_WHY[label]}"
    if "mean_waiting" in metrics:
        waiting, running = number(metrics["mean_waiting"]), number(metrics["mean_running"])
        text += f"; {waiting} requests queued, {running} running on average"
    return text


def _throughput(metrics: Mapping[str, Any]) -> str:
    """Throughput as vLLM counts it: from the start to the last token, with the drain after the last arrival."""
    return (
        f"{number(metrics['request_throughput'])} req/s, {number(metrics['output_throughput'])} output tokens/s "
        f"(peak {metrics['max_output_tokens_per_s']:,} over 1 s), "
        f"{number(metrics['total_token_throughput'])} tokens/s with prompts, over the whole run of "
        f"{time(metrics['duration'])}"
    )


def _batch(metrics: Mapping[str, Any]) -> str:
    text = (
        f"{number(metrics['mean_batch_size'])} sequences per decode step on average; "
        f"at most {metrics['max_concurrent_requests']:,} requests in flight within one second"
    )
    if "max_kv_cache_usage" in metrics and "mean_kv_cache_usage" in metrics:
        mean, most = percent(metrics["mean_kv_cache_usage"]), percent(metrics["max_kv_cache_usage"])
        text += f"; {mean} of the KV cache used on average, {most} at most"
    return text


def _prefix_cache(metrics: Mapping[str, Any]) -> str:
    if not metrics["prefixes_known"]:
        return "on, but unused: the workload has no shared prefixes (prefixes, sessions, hash_ids)"
    queries, hits = metrics["prefix_cache_queries"], metrics["prefix_cache_hits"]
    return f"{percent(hits / queries)} of {queries:,} prompt tokens hit"


def _session_times(metrics: Mapping[str, Any]) -> str:
    p50, p99 = (milliseconds(metrics[f"{name}_session_ms"]) for name in ("p50", "p99"))
    return f"{metrics['completed_sessions']:,} completed; from first request to last answer p50 {p50} / p99 {p99}"


def _tiers(metrics: Mapping[str, Any]) -> str:
    """What was found in each tier, what moved, and how long loads took."""
    parts = [
        f"{kind}: {percent(metrics[f'kv_hit_share_{kind}'])} of prompt tokens hit, "
        f"{_bytes(metrics[f'kv_read_bytes_{kind}'])} read, {_bytes(metrics[f'kv_written_bytes_{kind}'])} written"
        for kind in TIER_KINDS
        if f"kv_hit_share_{kind}" in metrics
    ]
    text, loads = "; ".join(parts), metrics["kv_loads"]
    if not loads:
        return f"{text}; no loads"
    of_ttft = metrics.get("kv_load_share_of_ttft")
    part = "" if of_ttft is None else f", {percent(of_ttft)} of the time to first token"
    mean, most = milliseconds(metrics["mean_kv_load_ms"]), milliseconds(metrics["max_kv_load_ms"])
    return f"{text}; {loads:,} loads of {mean} on average, {most} at most{part}"


def _images(metrics: Mapping[str, Any]) -> str:
    """The tokens of images, and what encoding them took."""
    tokens, part = metrics["image_tokens"], percent(metrics["image_token_share"])
    text = f"{tokens:,} prompt tokens of images ({part}); {metrics['images_encoded']:,} images encoded"
    hits, mean_ms = metrics["encoder_cache_hit_rate"], metrics["mean_encoder_pass_ms"]
    if hits is not None:
        text += f", {percent(hits)} found in the encoder cache"
    if mean_ms is not None:
        text += f"; passes of {milliseconds(mean_ms)} on average, {percent(metrics['encoder_time_share'])} of the time"
    return text


def _bytes(nbytes: float) -> str:
    return pretty(nbytes, Dimension.BYTES)


def _goodput(metrics: Mapping[str, Any]) -> str:
    """Requests that met all targets, and the share that met each target."""
    text = f"{number(metrics['goodput_requests_per_s'])} req/s met the targets"
    if metrics["slo_attainment"] is None:
        return text
    parts = [
        f"{label} <= {milliseconds(metrics[f'slo_{name}_ms'])} by {percent(metrics[f'slo_attainment_{name}'])}"
        for label, name in _TIMES.items()
        if f"slo_{name}_ms" in metrics
    ]
    return f"{text}, {percent(metrics['slo_attainment'])} of the requests: {', '.join(parts)}"


def _requests(metrics: Mapping[str, Any]) -> str:
    text = (
        f"{metrics['completed']:,} completed, {metrics['rejected']:,} rejected, {metrics['preemptions']:,} preemptions"
    )
    if metrics.get("cancelled"):
        text += f", {metrics['cancelled']:,} cancelled with {metrics['wasted_tokens']:,} wasted tokens"
    if "retries" in metrics:
        text += f", {metrics['retries']:,} retries, {share(metrics['answered_share'])} answered in the end"
    if metrics["in_flight"]:
        text += f", {metrics['in_flight']:,} in flight with {metrics['in_flight_output_tokens']:,} output tokens"
    for what in ("rejected", "cancelled"):
        why = "; ".join(f"{count:,} x {reason}" for reason, count in metrics.get(f"{what}_by_reason", {}).items())
        text += f" ({what}: {why})" if why else ""
    return text
