"""A serving run as ``vllm bench serve --save-result`` writes it, for tools that read those files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from simsys.config.experiment import SimulationConfig
from simsys.metrics.result import RunResult
from simsys.metrics.serving import PERCENTILES
from simsys.metrics.serving_log import IN_FLIGHT, ServingLog
from simsys.metrics.token_times import gaps_by_request
from simsys.version import __version__

_LATENCIES = ("ttft", "tpot", "itl", "e2el")
_FIGURES = (
    "duration",
    "completed",
    "failed",
    "total_input_tokens",
    "total_output_tokens",
    "request_throughput",
    "request_goodput",
    "output_throughput",
    "total_token_throughput",
    "max_output_tokens_per_s",
    "max_concurrent_requests",
    *(
        f"{statistic}_{name}_ms"
        for name in _LATENCIES
        for statistic in ("mean", "median", "std", *(f"p{percentile}" for percentile in PERCENTILES))
    ),
)


def bench_result(config: SimulationConfig, result: RunResult) -> dict[str, Any]:
    """Metrics of a run under the keys of ``vllm bench serve``; further metrics are under ``sim``.

    The date is left out, so that the same scenario gives the same bytes. With ``save_detailed`` in the scenario there
    are lists with one value per request, as with ``--save-detailed``; generated texts are not invented.
    """
    metrics = result.metrics
    detailed = config.simulation.save_detailed and result.requests is not None
    return {
        "endpoint_type": "simsys",
        "backend": "simsys",
        "label": config.name,
        "model_id": model_id(config),
        "tokenizer_id": model_id(config),
        "num_prompts": metrics["completed"] + metrics["failed"] + metrics["in_flight"],
        **_traffic(config),
        **{name: metrics[name] for name in _FIGURES},
        **(_detailed(result.requests) if detailed and result.requests is not None else {}),
        "sim": {
            "schema_version": 1,
            "simsys_version": __version__,
            "level_of_detail": result.lod,
            "contention": result.contention,
            "simulated_s": result.simulated_s,
            **{name: value for name, value in metrics.items() if name not in _FIGURES},
        },
    }


def bench_text(data: Mapping[str, Any]) -> str:
    """Write the metrics as JSON with one line per key, however long its list."""
    lines = (f"  {json.dumps(key)}: {_indented(value)}" for key, value in data.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def model_id(config: SimulationConfig) -> str:
    """The name of the model."""
    model = config.model
    return model.name or model.huggingface or model.model_type or "custom"


def _indented(value: Any) -> str:
    indent = 2 if isinstance(value, dict) else None
    return json.dumps(value, indent=indent, allow_nan=False).replace("\n", "\n  ")


def _traffic(config: SimulationConfig) -> dict[str, Any]:
    """The mean request rate; ``inf`` if all are sent at once, None if a trace has the times."""
    assert config.workload is not None
    arrivals = config.workload.arrivals
    rate: float | str | None = getattr(arrivals, "rate", None)
    if arrivals.kind in ("all_at_once", "closed_loop"):
        rate = "inf"
    poisson = 1.0 if arrivals.kind == "poisson" else None
    return {
        "request_rate": rate,
        "burstiness": getattr(arrivals, "burstiness", poisson),
        "max_concurrency": getattr(arrivals, "concurrency", None),
    }


def _detailed(log: ServingLog) -> dict[str, Any]:
    """One value per request that a client sent, zero or empty for a failed one, as in vLLM."""
    requests, gaps = log.requests, gaps_by_request(log)
    sent = [request for request, arrival_s in enumerate(log.arrival_s) if arrival_s >= 0.0]
    done = {request for request in sent if log.finished_s[request] >= 0.0}
    lists: dict[str, Any] = {
        "input_lens": [requests.prompt_tokens[each] for each in sent],
        "output_lens": [requests.output_tokens[each] if each in done else 0 for each in sent],
        "ttfts": [log.first_token_s[each] - log.arrival_s[each] if each in done else 0.0 for each in sent],
        "start_times": [log.arrival_s[each] for each in sent],
        "errors": ["" if each in done else log.reason(each) or IN_FLIGHT for each in sent],
    }
    return lists if gaps is None else {**lists, "itls": [gaps[each] for each in sent]}
