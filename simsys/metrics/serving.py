"""Figures of a serving run, with the names and definitions of ``vllm bench serve``.

ITL are the gaps between tokens pooled over all requests, or between the steps that made some where drafts are
accepted; percentiles interpolate linearly and the standard deviation
divides by n (vllm/benchmarks/serve.py). Goodput counts requests that meet all targets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from simsys.metrics.latencies import Latencies
from simsys.metrics.offered_load import load_metrics
from simsys.metrics.serving_log import ServingLog
from simsys.metrics.sessions import session_times_s
from simsys.metrics.slo import missed, targets_s
from simsys.metrics.token_rate import BusySeconds, max_per_second

if TYPE_CHECKING:
    import numpy as np

PERCENTILES = (50, 90, 95, 99)
LATENCIES = ("ttft", "tpot", "itl", "e2el", "queue", "prefill", "decode", "inference")
"""Latencies with all statistics; the first four are as in ``vllm bench serve``."""


def serving_metrics(log: ServingLog, slo: Mapping[str, float]) -> dict[str, Any]:
    """Metrics of a run; times in ms as in vLLM.

    Rates with vLLM's names are per second of the whole run, ``served_requests_per_s`` and ``goodput_requests_per_s``
    of the time in which requests arrive (`simsys.metrics.offered_load`).

    Args:
        log: The log of requests.
        slo: Targets of a request in seconds for ``ttft``, ``tpot`` and ``e2el``; limits of statistics in seconds,
            such as ``p99_ttft``; and ``attainment``, the share of requests that have to meet all targets. Missing
            ones are not demanded.
    """
    times = Latencies(log.rows(), log.api_s)
    throughput = _throughput(log, times)
    load = load_metrics(log, times, throughput["request_throughput"])
    figures = {
        **load,
        **_counts(log, times),
        **throughput,
        **_peaks(log, times),
        **_targets(log, times, targets_s(slo), load["served_requests_per_s"]),
        **_latencies(log, times),
        **_sessions(log),
    }
    if not slo:
        return figures
    misses = missed(slo, figures)
    return {**figures, "slo_met": int(not misses), "slo_missed": "; ".join(misses)}


def _counts(log: ServingLog, times: Latencies) -> dict[str, Any]:
    import numpy as np

    reasons = Counter(log.rejected.values())
    return {
        "completed": times.completed,
        "failed": len(log.rejected) + len(log.cancelled),
        "in_flight": len(log.in_flight),
        "in_flight_output_tokens": log.in_flight_tokens,
        "rejected": len(log.rejected),
        "rejected_by_reason": dict(sorted(reasons.items(), key=lambda each: (-each[1], each[0]))),
        **_cancelled(log),
        "preemptions": int(np.asarray(log.preemptions).sum()),
        **_steps(log),
        "prefixes_known": int(any(log.requests.hash_ids)),
        "prefix_cache_queries": log.prefix_queries,
        "prefix_cache_hits": log.prefix_hits,
    }


def _sessions(log: ServingLog) -> dict[str, Any]:
    """Times of whole sessions, if there are conversations; and tokens of thought, if there are any."""
    import numpy as np

    figures: dict[str, Any] = {}
    times_s, thoughts = session_times_s(log), log.requests.reasoning_tokens
    if times_s is not None:
        figures |= {"completed_sessions": int(times_s.size), **_statistics("session", times_s)}
    if thoughts:
        figures["total_reasoning_tokens"] = int(np.asarray(thoughts)[log.completed].sum())
    return figures


def _cancelled(log: ServingLog) -> dict[str, Any]:
    """Requests whose clients gave up, the tokens computed for them, and the clients that had an answer in the end."""
    requests, cancelled = log.requests, log.cancelled.values()
    reasons = Counter(each.reason for each in cancelled)
    figures: dict[str, Any] = {
        "cancelled": len(cancelled),
        "cancelled_by_reason": dict(sorted(reasons.items(), key=lambda each: (-each[1], each[0]))),
        "wasted_tokens": sum(each.wasted_tokens for each in cancelled),
    }
    if any(requests.attempt):
        sent = [attempt for attempt, time_s in zip(requests.attempt, log.arrival_s, strict=True) if time_s >= 0.0]
        clients = sent.count(0)
        figures["retries"] = len(sent) - clients
        figures["answered_share"] = int(log.completed.sum()) / clients if clients else 0.0
    return figures


def _steps(log: ServingLog) -> dict[str, Any]:
    """Step count, mean decode batch size, and peak use of a KV cache."""
    steps = decoding = tokens = 0
    for runs in log.steps.together():
        steps += int(runs.count.sum())
        decoding += int(runs.count[runs.decode_tokens > 0].sum())
        tokens += int((runs.count * runs.decode_tokens).sum())
    figures: dict[str, Any] = {"steps": steps, "mean_batch_size": tokens / decoding if decoding else 0.0}
    if log.caches:
        figures["max_kv_cache_usage"] = max(cache.peak_blocks / cache.num_blocks for cache in log.caches.values())
    return figures


def _duration_s(log: ServingLog, times: Latencies) -> float:
    """From the beginning of the run to its time, or else the end of the last request; 0 if none was completed."""
    if log.stopped_s is not None:
        return log.stopped_s - log.starts_s
    return float(times.finished_s.max()) - log.starts_s if times.completed else 0.0


def _throughput(log: ServingLog, times: Latencies) -> dict[str, float]:
    duration_s = _duration_s(log, times)
    per_s = 1.0 / duration_s if duration_s else 0.0
    prompts, outputs = int(times.column("prompt_tokens").sum()), int(times.output_tokens.sum())
    return {
        "duration": duration_s,
        "total_input_tokens": prompts,
        "total_output_tokens": outputs,
        "request_throughput": times.completed * per_s,
        "output_throughput": outputs * per_s,
        "total_token_throughput": (outputs + prompts) * per_s,
    }


def _peaks(log: ServingLog, times: Latencies) -> dict[str, int]:
    """Most output tokens in a second, and most requests under way in one, counted from the first arrival."""
    import numpy as np

    if not times.completed:
        return {"max_output_tokens_per_s": 0, "max_concurrent_requests": 0}
    seconds = _busy_seconds(log, times)
    began = seconds.counted(np.floor(times.arrival_s - seconds.origin_s))
    ended = seconds.counted(np.floor(times.finished_s - seconds.origin_s) + 1.0)
    return {
        "max_output_tokens_per_s": max_per_second(log, seconds),
        "max_concurrent_requests": int(np.cumsum(began - ended).max()),
    }


def _busy_seconds(log: ServingLog, times: Latencies) -> BusySeconds:
    """In which requests are under way, until the last one is completed."""
    import numpy as np

    started_s, last_s = float(times.arrival_s.min()), float(times.finished_s.max())
    arrival_s, finished_s = log.arrived_s, log.left_s
    finished_s[finished_s < 0.0] = last_s  # requests in flight have tokens, too
    rejected = list(log.rejected)
    finished_s[rejected] = arrival_s[rejected]
    came = (arrival_s >= 0.0) & (arrival_s <= last_s)
    if not came.all():
        arrival_s, finished_s = arrival_s[came], finished_s[came]
    began_s = np.maximum(arrival_s, started_s)
    return BusySeconds(began_s, np.maximum(finished_s, began_s), started_s)  # some were rejected before


def _targets(
    log: ServingLog, times: Latencies, slo: Mapping[str, float], served_per_s: float
) -> dict[str, float | None]:
    """Requests per second that meet all targets, and the share of all that have ended, in any way, that meet each."""
    import numpy as np

    if not slo:
        return {"request_goodput": None, "goodput_requests_per_s": None}
    all_met = np.ones(times.completed, dtype=bool)
    ended = times.completed + len(log.rejected) + len(log.cancelled)
    shares: dict[str, float | None] = {f"slo_{name}_ms": 1e3 * target_s for name, target_s in slo.items()}
    for name, target_s in slo.items():
        met = getattr(times, f"{name}_s") <= target_s
        all_met &= met
        shares[f"slo_attainment_{name}"] = float(met.sum() / ended) if ended else None
    duration_s = _duration_s(log, times)
    return {
        "request_goodput": float(all_met.sum() / duration_s) if duration_s else 0.0,
        "goodput_requests_per_s": served_per_s * float(all_met.mean()) if times.completed else 0.0,
        "slo_attainment": float(all_met.sum() / ended) if ended else None,
        **shares,
    }


def _latencies(log: ServingLog, times: Latencies) -> dict[str, float | None]:
    columns = {name: f"{name}_s" for name in LATENCIES} | {"tpot": "several_tpot_s"}
    figures: dict[str, float | None] = {}
    for name in LATENCIES:
        figures |= _gaps(log) if name == "itl" else _statistics(name, getattr(times, columns[name]))
    return figures


def _gaps(log: ServingLog) -> dict[str, float | None]:
    gaps = log.between_tokens
    if not gaps.total:
        return dict.fromkeys(_keys("itl"))
    return _figures("itl", [gaps.mean_s, gaps.std_s(), *gaps.percentiles_s(PERCENTILES)])


def _statistics(name: str, seconds: np.ndarray) -> dict[str, float | None]:
    """Mean, median, standard deviation and percentiles, in milliseconds; None if there are no values."""
    if not seconds.size:
        return dict.fromkeys(_keys(name))
    mean, std = seconds.mean(), seconds.std()
    last = seconds.size - 1
    places = [percentage / 100 * last for percentage in PERCENTILES]
    seconds.partition(sorted({min(int(place) + more, last) for place in places for more in (0, 1)}))
    return _figures(name, [mean, std, *(_interpolated(seconds, place) for place in places)])


def _interpolated(ordered: np.ndarray, place: float) -> float:
    """The value at a place in the order of size, interpolated linearly as `numpy.percentile` does at a tenfold cost.

    Args:
        ordered: Values, of which those beside the place are where they are in the order.
        place: The place, counted from 0.
    """
    first = int(place)
    low, high = float(ordered[first]), float(ordered[min(first + 1, ordered.size - 1)])
    return low + (high - low) * (place - first)


def _keys(name: str) -> list[str]:
    return [f"mean_{name}_ms", f"median_{name}_ms", f"std_{name}_ms", *(f"p{p}_{name}_ms" for p in PERCENTILES)]


def _figures(name: str, seconds: list[float]) -> dict[str, float | None]:
    mean, std, median, *_ = seconds
    return {key: 1e3 * float(value) for key, value in zip(_keys(name), [mean, median, std, *seconds[2:]], strict=True)}
