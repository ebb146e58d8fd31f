"""Figures of a serving run, with the names and definitions of ``vllm bench serve``.

TTFT is from arrival to first token, TPOT ``(E2E - TTFT) / (output tokens - 1)`` of requests with more than one
output token, ITL the gaps between tokens pooled over all requests; percentiles interpolate linearly and the
standard deviation divides by n (vllm/benchmarks/serve.py). Goodput counts requests that meet all targets.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, MutableSequence, Sequence
from typing import TYPE_CHECKING, Any

from simsys.metrics.gaps import Gaps
from simsys.serving.requests import RequestTable

if TYPE_CHECKING:
    import numpy as np

PERCENTILES = (50, 90, 95, 99)


class ServingLog:
    """What happened to each request, in preallocated columns indexed by request; -1 for not yet."""

    def __init__(self, requests: RequestTable) -> None:
        self.requests = requests
        count = len(requests)
        self.arrival_s = requests.arrival_s
        """Known beforehand, unless some arrive when others have ended."""
        if requests.after or requests.concurrency:
            self.arrival_s = [-1.0] * count
        self.admitted_s: MutableSequence[float] = array("d", [-1.0]) * count
        self.first_token_s: MutableSequence[float] = array("d", [-1.0]) * count
        self.finished_s: MutableSequence[float] = array("d", [-1.0]) * count
        self.preemptions = [0] * count
        self.rejected: dict[int, str] = {}
        self.steps = array("d")
        """Runs of steps, six numbers each, as `Probe.steps` tells them."""

    def rows(self) -> Mapping[str, Sequence[Any]]:
        """One row per request; empty where it did not get that far."""

        def seen(times: Sequence[float]) -> list[float | None]:
            return [time if time >= 0.0 else None for time in times]

        states = ["completed" if end >= 0.0 else "unfinished" for end in self.finished_s]
        for request in self.rejected:
            states[request] = "rejected"
        return {
            "request": list(range(len(self.requests))),
            "arrival_s": seen(self.arrival_s),
            "prompt_tokens": self.requests.prompt_tokens,
            "output_tokens": self.requests.output_tokens,
            "admitted_s": seen(self.admitted_s),
            "first_token_s": seen(self.first_token_s),
            "finished_s": seen(self.finished_s),
            "preemptions": self.preemptions,
            "state": states,
            "reason": [self.rejected.get(request, "") for request in range(len(self.requests))],
        }


def serving_metrics(log: ServingLog, slo: Mapping[str, float]) -> dict[str, Any]:
    """Figures of a run; times in ms as vLLM reports them, rates per second of the whole run."""
    import numpy as np

    finished = np.asarray(log.finished_s)
    done = finished >= 0.0
    arrival = np.asarray(log.arrival_s)[done]
    output_tokens = np.asarray(log.requests.output_tokens)[done]
    prompt_tokens = np.asarray(log.requests.prompt_tokens)[done]
    ttft = np.asarray(log.first_token_s)[done] - arrival
    e2el = finished[done] - arrival
    decoded = np.maximum(output_tokens - 1, 1)
    tpot = np.where(output_tokens > 1, (e2el - ttft) / decoded, 0.0)
    queue = np.asarray(log.admitted_s)[done] - arrival
    duration_s = float(finished.max()) if done.any() else 0.0
    per_s = 1.0 / duration_s if duration_s else 0.0
    metrics: dict[str, Any] = {
        "duration": duration_s,
        "completed": int(done.sum()),
        "failed": len(log.rejected),
        "total_input_tokens": int(prompt_tokens.sum()),
        "total_output_tokens": int(output_tokens.sum()),
        "request_throughput": float(done.sum() * per_s),
        "output_throughput": float(output_tokens.sum() * per_s),
        "total_token_throughput": float((output_tokens.sum() + prompt_tokens.sum()) * per_s),
        "request_goodput": _goodput({"ttft": ttft, "tpot": tpot, "e2el": e2el}, slo, per_s),
        "preemptions": sum(log.preemptions),
        "steps": int(sum(log.steps[1::6])),
    }
    times = {"ttft": ttft, "tpot": tpot[output_tokens > 1], "e2el": e2el, "queue": queue}
    for name, seconds in times.items():
        metrics |= _statistics(name, seconds * 1e3)
    return metrics | _itl_statistics(Gaps.of_runs(log.steps))


def _itl_statistics(gaps: Gaps) -> dict[str, float | None]:
    """As `_statistics`; of so many values, interpolation between neighbours is immaterial."""
    keys = _names("itl")
    if not gaps.count.size:
        return dict.fromkeys(keys)
    p50, *others = (gaps.quantile(percentile / 100) for percentile in PERCENTILES)
    return {key: 1e3 * value for key, value in zip(keys, [gaps.mean(), p50, gaps.std(), p50, *others], strict=True)}


def _names(name: str) -> list[str]:
    return [f"mean_{name}_ms", f"median_{name}_ms", f"std_{name}_ms", *(f"p{p}_{name}_ms" for p in PERCENTILES)]


def _goodput(times: Mapping[str, np.ndarray], slo: Mapping[str, float], per_s: float) -> float | None:
    """Requests per second that meet all targets; None without targets."""
    if not slo:
        return None
    import numpy as np

    met = np.logical_and.reduce([times[name] <= target for name, target in slo.items()])
    return float(met.sum() * per_s)


def _statistics(name: str, values_ms: np.ndarray) -> dict[str, float | None]:
    """Mean, median, standard deviation and percentiles, in milliseconds; None if there are no values."""
    import numpy as np

    keys = _names(name)
    if not values_ms.size:
        return dict.fromkeys(keys)
    points = np.percentile(values_ms, [50, *PERCENTILES])
    mean, spread = values_ms.mean(), values_ms.std()
    return dict(zip(keys, map(float, [mean, points[0], spread, *points[1:]]), strict=True))
