"""Offered and served load of a serving run: how many requests came, and how many of them were kept up with.

``vllm bench serve`` divides the completed requests by the time from the first request to the end of the last one
(``request_throughput``; vllm/benchmarks/serve.py). In an open loop that time ends with a drain, in which nothing
arrives any more, so a server that keeps up with 20 req/s seems to serve fewer, the fewer the shorter the run.
MLPerf's LoadGen (loadgen/results.cc, scenario Server) divides likewise, and counts n - 1 of n requests, since the
last arrival is the open end of the interval. Vidur (config_optimizer/config_explorer/capacity_search.py) takes the
largest rate at which a quantile of the delay until requests are scheduled stays below a limit. Here:

- the *offered rate* is the requests that arrive from the first arrival until before the last one, over that time; a
  closed loop and a batch that arrives at once have none;
- the *served rate* is the share of it that is neither rejected nor adds to a queue that grows as long as requests come
  (`simsys.metrics.saturation`): the rate that a longer run would complete.

Where there is no offered rate, or most requests end after the last arrival although nothing was overloaded, so that no
steady state is seen, the served rate is that of the whole run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from simsys.metrics.latencies import Latencies
from simsys.metrics.saturation import OVERLOADED, Backlog, backlog, saturation
from simsys.metrics.serving_log import ServingLog

if TYPE_CHECKING:
    import numpy as np

SETTLED_SHARE = 0.5
"""Of the completed requests, the share that has to end before the last arrival for a steady state: our choice."""


def load_metrics(log: ServingLog, times: Latencies, request_throughput: float) -> dict[str, Any]:
    """Offered and served rate, what was lost, and whether the replicas kept up.

    Args:
        log: What happened to the requests.
        times: Those of completed requests.
        request_throughput: Completed requests per second of the whole run.
    """
    import numpy as np

    arrival_s = np.asarray(log.arrival_s, dtype=float)
    sent = arrival_s >= 0.0
    count = int(sent.sum())
    growth = _growth(log, arrival_s, sent)
    label = _label(growth, times)
    overloaded = label == OVERLOADED and growth is not None
    rejected_share = len(log.rejected) / count if count else 0.0
    served_share = (1.0 - rejected_share) * (1.0 - growth.share if overloaded and growth is not None else 1.0)
    window_s, offered_per_s = _offered(log, arrival_s[sent])
    steady = overloaded or _settled(times, arrival_s)
    return {
        "offered_requests_per_s": offered_per_s,
        "served_requests_per_s": served_share * offered_per_s if offered_per_s and steady else request_throughput,
        "served_share": served_share,
        "rejected_share": rejected_share,
        "preempted_share": sum(each > 0 for each in log.preemptions) / count if count else 0.0,
        "arrival_window_s": window_s,
        "steady": int(steady),
        "overloaded": int(overloaded),
        "saturation": label,
    }


def load_warnings(metrics: Mapping[str, Any]) -> list[str]:
    """What makes the rates of a run doubtful, for people; nothing of a run that has none.

    Args:
        metrics: The run's.
    """
    if not metrics.get("completed") or metrics.get("offered_requests_per_s") is None or metrics["steady"]:
        return []
    return [
        f"requests arrive for {metrics['arrival_window_s']:.3g} s, and most end after that: "
        f"{metrics['served_requests_per_s']:.3g} req/s is the rate of the whole run, and not one that is known to be "
        f"sustained; more requests (workload.num_requests) would show it"
    ]


def _offered(log: ServingLog, arrival_s: np.ndarray) -> tuple[float, float | None]:
    """The time from the first to the last arrival, and the requests per second in it; None where clients wait."""
    if not arrival_s.size:
        return 0.0, None
    first_s, last_s = float(arrival_s.min()), float(arrival_s.max())
    window_s = last_s - first_s
    if log.requests.concurrency or window_s <= 0.0:
        return window_s, None
    return window_s, float((arrival_s < last_s).sum()) / window_s


def _settled(times: Latencies, arrival_s: np.ndarray) -> bool:
    """Whether most requests end while others still arrive."""
    if not times.completed:
        return False
    return float((times.finished_s <= arrival_s.max()).mean()) >= SETTLED_SHARE


def _growth(log: ServingLog, arrival_s: np.ndarray, sent: np.ndarray) -> Backlog | None:
    """How the queue grew of requests that were not rejected."""
    kept = sent.copy()
    kept[list(log.rejected)] = False
    return backlog(arrival_s[kept], _taken_on_s(log)[kept]) if kept.any() else None


def _taken_on_s(log: ServingLog) -> np.ndarray:
    """When each request was scheduled first, for tokens too where other replicas make these; NaN for never."""
    import numpy as np

    taken_s = np.array(log.admitted_s, dtype=float)
    if log.joined:
        joins = np.asarray(log.requests.output_tokens) > 1
        taken_s[joins] = -1.0
        for request, (_, joined_s) in log.joined.items():
            taken_s[request] = joined_s
    return np.where(taken_s < 0.0, np.nan, taken_s)


def _label(growth: Backlog | None, times: Latencies) -> str | None:
    """Whether the replicas kept up; None if they served nothing."""
    if not times.completed:
        return None
    return saturation(growth, float(times.queue_s.mean()), float(times.inference_s.mean()))
