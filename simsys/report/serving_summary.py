"""The figures of a serving run as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simsys.metrics.saturation import BACKLOGGED, OVERLOADED, STABLE
from simsys.report.text import HARD_SPACE, LABEL, milliseconds, number, percent, row, share, time

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
"""From this share of rejected requests on, the headline names the most frequent reason."""
_WHY = {
    STABLE: "requests wait less than they are served",
    BACKLOGGED: "requests wait longer than they are served",
    OVERLOADED: "the queue grows as long as requests come",
}


def serving_lines(metrics: Mapping[str, Any]) -> Iterator[str]:
    """What is to be said of a run, at most 80 columns wide."""
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
    if metrics["request_goodput"] is not None:
        yield from row("goodput", _goodput(metrics))
    yield from row("requests", _requests(metrics))
    if metrics["completed"]:
        yield from _economics(metrics)


def load_text(metrics: Mapping[str, Any]) -> str:
    """Offered and served rate, and what was lost, for the headline; the served rate alone where nothing is offered."""
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
        text += f"; on average {number(metrics['mean_waiting'])} wait and {number(metrics['mean_running'])} run"
    return text


def _throughput(metrics: Mapping[str, Any]) -> str:
    """As vLLM counts: from the beginning to the last token, so with the drain after the last arrival."""
    return (
        f"{number(metrics['request_throughput'])} req/s, {number(metrics['output_throughput'])} output tokens/s "
        f"(at most {metrics['max_output_tokens_per_s']:,} in a second), "
        f"{number(metrics['total_token_throughput'])} tokens/s with prompts, over the whole run of "
        f"{time(metrics['duration'])}"
    )


def _batch(metrics: Mapping[str, Any]) -> str:
    text = (
        f"{number(metrics['mean_batch_size'])} sequences decode in a step on average; "
        f"{metrics['max_concurrent_requests']:,} requests at most are under way in a second"
    )
    if "max_kv_cache_usage" in metrics and "mean_kv_cache_usage" in metrics:
        mean, most = percent(metrics["mean_kv_cache_usage"]), percent(metrics["max_kv_cache_usage"])
        text += f"; {mean} of the KV cache used on average, {most} at most"
    return text


def _prefix_cache(metrics: Mapping[str, Any]) -> str:
    if not metrics["prefixes_known"]:
        return "on, but the workload gives no prefixes (prefixes, sessions, hash_ids in a trace), so it finds nothing"
    queries, hits = metrics["prefix_cache_queries"], metrics["prefix_cache_hits"]
    return f"{percent(hits / queries)} of {queries:,} prompt tokens found"


def _goodput(metrics: Mapping[str, Any]) -> str:
    """Requests that met all targets, and the share that met each."""
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
        f"{metrics['completed']:,} completed, {metrics['failed']:,} rejected, {metrics['preemptions']:,} preemptions"
    )
    if metrics["in_flight"]:
        text += f", {metrics['in_flight']:,} in flight with {metrics['in_flight_output_tokens']:,} output tokens"
    why = "; ".join(f"{count:,} x {reason}" for reason, count in metrics["rejected_by_reason"].items())
    return f"{text} (rejected: {why})" if why else text


def _economics(metrics: Mapping[str, Any]) -> Iterator[str]:
    if "usd_per_hour" in metrics:
        tokens, outputs = metrics["usd_per_million_tokens"], metrics["usd_per_million_output_tokens"]
        yield from row(
            "cost",
            f"{number(tokens)}{HARD_SPACE}$ per million tokens, {number(outputs)}{HARD_SPACE}$ per million output "
            f"tokens, at {number(metrics['usd_per_hour'])}{HARD_SPACE}$/h",
        )
    tokens, outputs = metrics["energy_per_token_j"], metrics["energy_per_output_token_j"]
    yield from row(
        "energy",
        f"{number(tokens)}{HARD_SPACE}J per token, {number(outputs)}{HARD_SPACE}J per output token, at "
        f"{number(metrics['gpu_power_watt'])}{HARD_SPACE}W",
    )
