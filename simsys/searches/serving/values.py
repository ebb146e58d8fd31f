"""Bounds of the metrics of a serving run, each on the side of the deployment."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simsys.searches.goal import COST, GOODPUT, NUM_GPUS, Goal
from simsys.searches.serving.demand import Demand
from simsys.searches.serving.engines import Engines

PRICE, COST_OF_OUTPUT = "usd_per_hour", "usd_per_million_output_tokens"
PRICED = (PRICE, COST, COST_OF_OUTPUT)
COSTS = (NUM_GPUS, *PRICED)
"""Metrics that grow with the number of replicas."""
THROUGHPUTS = ("request_throughput", "output_throughput", "total_token_throughput")
ATTAINMENT = "slo_attainment"
JUDGED = ("slo_attainment", "goodput")
"""Beginnings of the names of metrics that count the requests that meet the targets."""
_LATENCY = re.compile(r"(mean|median|p\d+)_(ttft|tpot|e2el)_ms")
SAMPLED = 1.1
"""Requests of a longer run may need less work than a sample of them, by up to this factor."""
MILLION, SECONDS_PER_HOUR, MS = 1e6, 3600.0, 1e3


def is_cost(goal: Goal) -> bool:
    """Whether the best deployment is the smallest one that meets the targets."""
    return goal.metric in COSTS and not goal.largest


def is_bounded(goal: Goal) -> bool:
    """Whether there is a bound of the metric of a goal."""
    if goal.largest:
        return goal.metric in (*THROUGHPUTS, ATTAINMENT, GOODPUT)
    return goal.metric in COSTS or _LATENCY.fullmatch(goal.metric) is not None


@dataclass(frozen=True)
class Values:
    """Bounds of metrics with the engines of a kind and one of their limits.

    Args:
        engines: The engines.
        place: The place of the limit.
    """

    engines: Engines
    place: int

    @property
    def _demand(self) -> Demand:
        return self.engines.demand

    def best(self, metric: str, gpus: int, usd_per_gpu_hour: float, prefill: int, decode: int) -> float:
        """The best value of a metric with a bound.

        Args:
            metric: The metric.
            gpus: GPUs of all replicas.
            usd_per_gpu_hour: Price of a GPU.
            prefill: Replicas that process prompts.
            decode: Replicas that decode; those that process prompts if these do both.
        """
        per_hour = gpus * usd_per_gpu_hour
        if metric in (NUM_GPUS, PRICE):
            return float(gpus) if metric == NUM_GPUS else per_hour
        if metric == ATTAINMENT:
            return float(self.engines.bounds.attainable(*self._latencies()).mean())
        if metric == GOODPUT:
            return self._goodput(prefill, decode)
        if metric in THROUGHPUTS:
            return self._rate(metric, prefill, decode)
        if metric in PRICED:
            rate = self._rate("total_token_throughput" if metric == COST else "output_throughput", prefill, decode)
            return per_hour / SECONDS_PER_HOUR / rate * MILLION if math.isfinite(rate) else 0.0
        return self._latency(metric)

    def _latencies(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        bounds = self.engines.bounds
        return bounds.ttft_s(float(self.engines.limits.tokens[self.place])), bounds.tpot_s

    def _latency(self, metric: str) -> float:
        match = _LATENCY.fullmatch(metric)
        assert match is not None
        if not self.engines.served[self.place] or self._demand.timed:
            return 0.0
        ttft_s, tpot_s = self._latencies()
        each = {"ttft": ttft_s, "tpot": tpot_s, "e2el": ttft_s + tpot_s * self._demand.decode_tokens}[match[2]]
        return float(_statistic(match[1])(each)) * MS

    def _rate(self, metric: str, prefill: int, decode: int) -> float:
        """The largest throughput; infinite if no duration of the run is known."""
        demand = self._demand
        prompts, outputs = float(demand.prompt_tokens.sum()), float(demand.decode_tokens.sum() + len(demand.requests))
        amount = {"request_throughput": float(len(demand.requests)), "output_throughput": outputs}
        if demand.timed or not self.engines.served[self.place]:
            return math.inf
        span_s = demand.requests.span_s if demand.open_loop else 0.0
        least_s = max(span_s, self._work_s(prefill, decode, judged=False))
        return amount.get(metric, prompts + outputs) / least_s if least_s > 0 else math.inf

    def _goodput(self, prefill: int, decode: int) -> float:
        """The largest rate that meets the SLO; the requests of a run may be shorter than these, which are a sample."""
        work_s = self._work_s(prefill, decode, judged=True)
        return SAMPLED * len(self._demand.requests) / work_s if work_s > 0 else math.inf

    def _work_s(self, prefill: int, decode: int, *, judged: bool) -> float:
        """Least time of the busiest replicas for all requests; if it is `judged`, for those that meet the SLO."""
        bounds, limits = self.engines.bounds, self.engines.limits.at(self.place)
        due, both = self._demand.everything(judged=judged), not self.engines.job.settings.disaggregated
        decodes = bounds.work_s(limits, due, within_target=judged, prompts=both)
        prompts = bounds.work_s(limits, due, within_target=judged, decodes=False)
        return max(float(decodes[0, 0]) / decode, float(prompts[0, 0]) / prefill)


def _statistic(name: str) -> Callable[[NDArray[np.float64]], np.floating]:
    """A statistic of latencies by its name."""
    if name == "mean":
        return np.mean
    percentile = 50.0 if name == "median" else float(name[1:])
    return lambda each: np.percentile(each, percentile)
