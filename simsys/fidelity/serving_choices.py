"""Choices among measured serving runs that differ in one choice alone: which costs least by token within limits.

The cost by token is GPU seconds, or the price of GPUs of different types. Where no throughput was measured, it follows
from the mean latency of a request and the number of requests at work (Little's law), for measurement and prediction.
A limit counts where some candidates of a set were measured within it and others were not. As in a search, what is
chosen within a limit of TTFT leaves a part of the KV cache free, as predicted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean
from typing import Any, TypeAlias

from simsys.config.hardware import load_gpu
from simsys.config.search import KV_HEADROOM
from simsys.fidelity.case import Prediction, Run
from simsys.fidelity.ranking import Candidate, Choice, Worth, choices_among
from simsys.fidelity.scenario_run import ScenarioRun
from simsys.fidelity.tables.serving_rows import RATES
from simsys.metrics.kv_headroom import beyond_headroom, counts_waits

Limits: TypeAlias = Mapping[str, float]
"""Largest mean latency by metric, in ms."""
Values: TypeAlias = Mapping[str, float]
"""Values of one run by metric, in units of the tables."""

LAYOUT_PATHS = (
    *("parallelism.tp_degree", "parallelism.pp_stages", "parallelism.ep_degree", "parallelism.attention_dp"),
    *("serving.disaggregated", "hardware"),
)
LOAD_PATHS = (
    *("workload.arrivals.concurrency", "workload.num_requests"),
    *("serving.max_num_seqs", "serving.max_num_batched_tokens"),
)
GPU_PATHS = ("hardware",)
_SAME = ("engine", "engine_version", "gpu", "load_kind")
"""Tags that are equal in a set, with the settings of the scenario that do not vary."""
TPOT_LIMITS: tuple[Limits, ...] = tuple({"tpot_ms": limit_ms} for limit_ms in (10.0, 20.0, 40.0, 80.0))
BOTH_LIMITS: tuple[Limits, ...] = ({"ttft_ms": 500.0, "tpot_ms": 30.0}, {"ttft_ms": 2000.0, "tpot_ms": 80.0})
"""Limits of mean latencies, as of interactive and of slower services; users do not state one for all models."""


@dataclass(frozen=True)
class Kind:
    """A kind of choice.

    Args:
        name: What is chosen, and under which limit.
        paths: The settings that vary.
        limits: Limits of latency, each a choice of its own.
        over_gpus: Whether GPUs of different types are compared, by their price.
        headroom: Share of the KV cache that is free at the fullest moment of what is chosen within a limit of TTFT.
    """

    name: str
    paths: tuple[str, ...]
    limits: tuple[Limits, ...] = ({},)
    over_gpus: bool = False
    headroom: float = KV_HEADROOM


DEPLOYMENT = "parallelism and concurrency within limits of TTFT and TPOT"
KINDS = (
    Kind("parallelism at equal concurrency", LAYOUT_PATHS),
    Kind("concurrency within a TPOT limit", LOAD_PATHS, TPOT_LIMITS),
    Kind("concurrency within limits of TTFT and TPOT", LOAD_PATHS, BOTH_LIMITS),
    Kind("parallelism and concurrency within a TPOT limit", LAYOUT_PATHS + LOAD_PATHS, TPOT_LIMITS),
    Kind(DEPLOYMENT, LAYOUT_PATHS + LOAD_PATHS, BOTH_LIMITS),
    Kind(f"{DEPLOYMENT}, KV cache as full as it may be", LAYOUT_PATHS + LOAD_PATHS, BOTH_LIMITS, headroom=0.0),
    Kind("type of GPU at equal concurrency", GPU_PATHS, over_gpus=True),
)
"""All kinds; parallelism is TP degree, pipeline stages and expert parallelism of a replica."""


@dataclass(frozen=True)
class _Measured:
    """One measured run: its scenario, and its values as measured and as predicted."""

    row: Prediction
    scenario: dict[str, Any]
    measured: Values
    predicted: Values
    rows: int

    def worth(self, values: Values, limits: Limits, price: float) -> Worth | None:
        """Its cost by token within limits; None if the values do not say."""
        tokens_per_s = _output_tokens_per_s(values, self.scenario)
        if tokens_per_s is None or not limits.keys() <= values.keys():
            return None
        beyond = max((values[metric] / limit - 1.0 for metric, limit in limits.items()), default=0.0)
        return Worth(max(0.0, beyond), price * _gpus(self.scenario) / tokens_per_s)

    def candidate(self, limits: Limits, price: float, headroom: float) -> Candidate | None:
        """It as one of the candidates of a choice."""
        predicted, measured = (self.worth(values, limits, price) for values in (self.predicted, self.measured))
        if predicted is None or measured is None:
            return None
        if counts_waits(limits):
            predicted = replace(predicted, beyond=max(predicted.beyond, beyond_headroom(self.row.figures, headroom)))
        return Candidate(self.row, predicted, measured, self.rows)


def serving_choices(predictions: Sequence[Prediction]) -> dict[str, list[Choice]]:
    """Return the choices of each kind.

    Args:
        predictions: Predictions of measured values of serving.
    """
    runs = list(_runs(predictions))
    return {kind.name: _choices(kind, runs) for kind in KINDS}


def _runs(predictions: Sequence[Prediction]) -> Iterator[_Measured]:
    """Yield the predicted runs of each source; the mean of a value that was measured several times."""
    found: dict[tuple[str, str, Run], dict[str, list[Prediction]]] = {}
    for each in predictions:
        case = each.case
        if isinstance(case.run, ScenarioRun) and each.predicted is not None and _is_mean(case.figure):
            key = (case.group, case.tags.get("gpu", ""), case.run)
            found.setdefault(key, {}).setdefault(case.metric, []).append(each)
    for (_, _, run), by_metric in found.items():
        assert isinstance(run, ScenarioRun)
        yield _Measured(
            row=next(iter(by_metric.values()))[0],
            scenario=json.loads(run.scenario),
            measured={metric: fmean(each.case.measured for each in own) for metric, own in by_metric.items()},
            predicted={metric: own[0].predicted or 0.0 for metric, own in by_metric.items()},
            rows=sum(len(own) for own in by_metric.values()),
        )


def _is_mean(figure: str) -> bool:
    """Whether a figure is a mean or total of a run, as Little's law needs."""
    return figure.startswith("mean_") or figure == "duration" or figure in RATES.values()


def _choices(kind: Kind, runs: Sequence[_Measured]) -> list[Choice]:
    sets: dict[tuple[str, ...], list[_Measured]] = {}
    for each in runs:
        case = each.row.case
        same = [case.tags.get(name, "") for name in _SAME if not (kind.over_gpus and name == "gpu")]
        rest = json.dumps(_without(each.scenario, kind.paths), sort_keys=True)
        sets.setdefault((case.group, *same, rest), []).append(each)
    candidates = (_candidates(kind, own, limits) for own in sets.values() for limits in kind.limits)
    return choices_among(own for own in candidates if _limit_matters(own) or kind.limits == ({},))


def _candidates(kind: Kind, runs: Sequence[_Measured], limits: Limits) -> list[Candidate]:
    found = []
    for each in runs:
        price = _price(each.scenario["hardware"]["gpu"]) if kind.over_gpus else 1.0
        candidate = each.candidate(limits, price, kind.headroom) if price else None
        if candidate is not None:
            found.append(candidate)
    return found


def _limit_matters(candidates: Sequence[Candidate]) -> bool:
    """Whether some of them were measured within the limits and others were not."""
    return len({each.measured.beyond > 0.0 for each in candidates}) > 1


def _output_tokens_per_s(values: Values, scenario: Mapping[str, Any]) -> float | None:
    """Throughput of a deployment in generated tokens per second."""
    tokens = _mean_tokens(scenario["workload"]["output_tokens"])
    if "output_tokens_per_s" in values:
        return values["output_tokens_per_s"]
    if "requests_per_s" in values:
        return values["requests_per_s"] * tokens
    at_work = _requests_at_work(scenario["workload"])
    if at_work is None:
        return None
    if "e2e_s" in values:
        return at_work * tokens / values["e2e_s"]
    if "ttft_ms" in values and "tpot_ms" in values:
        return at_work * tokens / (1e-3 * (values["ttft_ms"] + (tokens - 1.0) * values["tpot_ms"]))
    return None


def _requests_at_work(workload: Mapping[str, Any]) -> int | None:
    """Number of requests that are always at work; None if it varies."""
    arrivals = workload["arrivals"]
    if arrivals["kind"] == "closed_loop":
        return int(arrivals["concurrency"])
    return int(workload["num_requests"]) if arrivals["kind"] == "all_at_once" else None


def _mean_tokens(length: int | Mapping[str, Any]) -> float:
    return float(length) if isinstance(length, int) else (length["low"] + length["high"]) / 2.0


def _gpus(scenario: Mapping[str, Any]) -> int:
    degrees, hardware = scenario["parallelism"], scenario["hardware"]
    if not degrees:  # pools, which use the whole cluster
        return int(hardware["gpus_per_node"] * hardware.get("num_nodes", 1))
    replicas = degrees.get("dp_degree", 1) * degrees.get("attention_dp", 1)
    return int(degrees["tp_degree"] * degrees["pp_stages"] * replicas)


@cache
def _price(gpu: str) -> float:
    """Price of a GPU in dollars per hour; 0 if it is unknown."""
    price = load_gpu(gpu).price
    return 0.0 if price is None else price.usd_per_hour


def _without(settings: Mapping[str, Any], paths: Sequence[str]) -> dict[str, Any]:
    """Return nested settings without those at some dotted paths."""
    own: dict[str, list[str]] = {path.partition(".")[0]: [] for path in paths}
    for path in paths:
        first, _, rest = path.partition(".")
        own[first].append(rest)
    return {
        key: _without(value, [rest for rest in own[key] if rest]) if key in own else value
        for key, value in settings.items()
        if "" not in own.get(key, ())
    }
