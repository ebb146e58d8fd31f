"""Offered and served load of a serving run: rates of arriving requests and of requests served in steady state.

``vllm bench serve`` divides the completed requests by the time from the first request to the end of the last one
(``request_throughput``; vllm/benchmarks/serve.py). In an open loop, that time ends with a drain without arrivals. So a
server with a stable load of 20 req/s seems to serve less, most of all in short runs. MLPerf's LoadGen
(loadgen/results.cc, scenario Server) uses the same quotient, and counts n - 1 of n requests, since the last arrival is
the open end of the interval. Vidur (config_optimizer/config_explorer/capacity_search.py) uses the largest rate at
which a quantile of the scheduling delay stays below a limit. Here:

- the *offered rate* is the requests that arrive from the first arrival until before the last one, over that time; a
  closed loop and a batch that arrives at once have none;
- the *served rate* is the offered rate without rejected and cancelled requests and without growth of the queue
  (`simsys.metrics.saturation`): the rate that a longer run would complete.

Without an offered rate, the served rate is that of the whole run. The same holds if the number of requests in flight
still grows at the last arrival although the queue does not. Then there is no steady state, as in a burst, in a short
run, or while an overload fills the batch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from simsys.metrics.growth import MARGIN, Growth, growth, in_order
from simsys.metrics.latencies import Latencies
from simsys.metrics.saturation import OVERLOADED, Backlog, backlog, saturation
from simsys.metrics.serving_log import ServingLog

if TYPE_CHECKING:
    import numpy as np

STEADY_SHARE, STEADY_DEVIATIONS, MOST_SHARE = 0.1, 3.0, 0.5
"""Limits of a steady state:

over the later half of the arrivals, requests in flight grow by at most this share of the arrivals, or by this number
of standard deviations, up to the last share. The number of independent requests in flight is a Poisson variable
(M/G/infinity), so the difference of two such numbers has twice its variance. These limits, and the next one, were
chosen by hand.
"""
PEAK_PART, PEAK = 0.75, 1.15
"""Arrivals may end with a burst.

So requests in flight at the end up to this multiple of their maximum in that part are no growth.
"""


def load_metrics(log: ServingLog, times: Latencies, request_throughput: float) -> dict[str, Any]:
    """Offered and served rate, losses, and whether the load was stable.

    Args:
        log: The log of requests.
        times: Times of completed requests.
        request_throughput: Completed requests per second of the whole run.
    """
    import numpy as np

    arrival_s = log.arrived_s
    sent = arrival_s >= 0.0
    count = int(sent.sum())
    kept = sent.copy()
    kept[list(log.rejected)] = False
    behind = None
    if kept.any() and not log.requests.concurrency:  # clients that wait for answers bound the queue
        behind = backlog(arrival_s[kept], _taken_on_s(log)[kept])
    label = _label(behind, times)
    overloaded = label == OVERLOADED and behind is not None
    rejected_share = len(log.rejected) / count if count else 0.0
    cancelled_share = len(log.cancelled) / count if count else 0.0
    lost = rejected_share + cancelled_share
    served_share = (1.0 - lost) * (1.0 - behind.share if overloaded and behind is not None else 1.0)
    window_s, offered_per_s = _offered(log, arrival_s[sent])
    left_s = log.left_s[kept]
    come_s, ends_s = in_order(arrival_s[kept]), in_order(left_s[left_s >= 0.0])
    steady = overloaded or _is_steady(come_s, ends_s)
    trend = None if offered_per_s is None else _trend(come_s, ends_s)
    return {
        "offered_requests_per_s": offered_per_s,
        "served_requests_per_s": served_share * offered_per_s if offered_per_s and steady else request_throughput,
        "served_share": served_share,
        "rejected_share": rejected_share,
        "cancelled_share": cancelled_share,
        "preempted_share": int(np.count_nonzero(log.preemptions)) / count if count else 0.0,
        "arrival_window_s": window_s,
        "steady": int(steady),
        "overloaded": int(overloaded),
        "growth_share": None if trend is None else trend.share,
        "growing": int(trend is not None and trend.is_seen and trend.share > MARGIN),
        "saturation": label,
    }


def load_warnings(metrics: Mapping[str, Any]) -> list[str]:
    """What makes the rates of a run doubtful, for people; nothing of a run that has none.

    Args:
        metrics: The run's.
    """
    if not metrics.get("completed"):
        return []
    found = _cancellation_warnings(metrics)
    if metrics.get("offered_requests_per_s") is None:
        return found
    if not metrics["steady"]:
        return [
            *found,
            f"requests arrive for {metrics['arrival_window_s']:.3g} s, and more and more are under way until then: "
            f"{metrics['served_requests_per_s']:.3g} req/s is the rate of the whole run, of which it is not known "
            f"whether it is sustained; a longer run (workload.num_requests) would show it",
        ]
    if metrics["growing"] and not metrics["overloaded"]:
        return [
            *found,
            f"batch or queue were still growing at the last arrival, by {metrics['growth_share']:.1%} of the requests "
            f"that arrived in the later half: a longer run (workload.num_requests) has higher latencies, and may be "
            f"overloaded",
        ]
    return found


def _cancellation_warnings(metrics: Mapping[str, Any]) -> list[str]:
    if not metrics.get("cancelled"):
        return []
    return [
        f"clients gave up {metrics['cancelled_share']:.1%} of the requests: latencies and throughput are those of "
        f"completed requests only, which are shorter than those of all; the time between tokens (ITL) is that of all"
    ]


def _trend(come_s: np.ndarray, ends_s: np.ndarray) -> Growth | None:
    """Growth of the number of requests in the system over the later half of the arrivals; both are in order."""
    if come_s.size < 2:
        return None
    return growth(come_s, ends_s, float(come_s[come_s.size // 2]), float(come_s[-1]))


def _offered(log: ServingLog, arrival_s: np.ndarray) -> tuple[float, float | None]:
    """The time from the first to the last arrival, and the requests per second in it; None where clients wait."""
    if not arrival_s.size:
        return 0.0, None
    first_s, last_s = float(arrival_s.min()), float(arrival_s.max())
    window_s = last_s - first_s
    if log.requests.concurrency or window_s <= 0.0:
        return window_s, None
    return window_s, float((arrival_s < last_s).sum()) / window_s


def _is_steady(come_s: np.ndarray, ends_s: np.ndarray) -> bool:
    """Whether requests end as fast as they come, over the later half of the arrivals; both are in order."""
    import numpy as np

    half = come_s.size // 2
    if come_s.size < half + 2 or come_s[half] == come_s[-1]:
        return False
    ended = np.searchsorted(ends_s, come_s, side="right")
    under_way = np.maximum(np.arange(1, come_s.size + 1) - ended, 0)  # some may end at the time at which others come
    arrived = come_s.size - 1 - half
    chance = STEADY_DEVIATIONS * math.sqrt(2.0 * float(under_way[half])) / arrived
    growth = float(under_way[-1] - under_way[half]) / arrived
    if growth <= max(STEADY_SHARE, min(MOST_SHARE, chance)):
        return True
    return bool(under_way[-1] <= PEAK * under_way[: math.ceil(PEAK_PART * come_s.size)].max())


def _taken_on_s(log: ServingLog) -> np.ndarray:
    """When each request was scheduled first, for tokens too where other replicas make these; NaN for never."""
    import numpy as np

    taken_s = np.array(log.admitted_s, dtype=float)
    if log.joined:
        joins = np.asarray(log.requests.output_tokens) > 1
        taken_s[joins] = -1.0
        requests, _, joined_s = log.joins
        taken_s[requests] = joined_s
    for request, each in log.cancelled.items():  # that were not taken on have left the queue, too
        taken_s[request] = taken_s[request] if taken_s[request] >= 0.0 else each.time_s
    return np.where(taken_s < 0.0, np.nan, taken_s)


def _label(behind: Backlog | None, times: Latencies) -> str | None:
    """Whether the replicas kept up; None if they served nothing."""
    if not times.completed:
        return None
    return saturation(behind, float(times.queue_s.mean()), float(times.inference_s.mean()))
