"""Small scenarios of each kind, and what a trace of them holds."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

from simsys.config.experiment import SimulationConfig
from simsys.metrics.result import RunResult
from simsys.probes import Probe
from simsys.simulation import simulate
from simsys.traces.scenario_trace import ScenarioTrace

GPT2 = {"name": "GPT2-Small"}
NODE = {"profile": "dgx-h100"}
SERVING: Mapping[str, Any] = {
    "hardware": {**NODE, "gpus_per_node": 2},
    "model": {"name": "Llama3-8B"},
    "parallelism": {"dp_degree": 2},
    "serving": {"engine": "vllm", "max_num_seqs": 8},
    "workload": {
        "arrivals": {"kind": "poisson", "rate": "40 req/s"},
        "prompt_tokens": {"kind": "uniform", "low": 10, "high": 900},
        "output_tokens": {"kind": "uniform", "low": 1, "high": 60},
        "num_requests": 40,
    },
}
JOBS: Mapping[str, Any] = {
    "hardware": NODE,
    "model": GPT2,
    "training": {"batch_size_per_gpu": 2, "num_iterations": 3},
    "jobs": [
        {"name": "small", "gpus": 2},
        {"name": "large", "gpus": 4, "training": {"batch_size_per_gpu": 4, "num_iterations": 2}},
        {
            "name": "chat",
            "gpus": 1,
            "model": SERVING["model"],
            **{key: SERVING[key] for key in ("serving", "workload")},
        },
    ],
}


def training(lod: str = "medium", iterations: int = 4, **parallelism: Any) -> SimulationConfig:
    """GPT-2 on a node."""
    plan = parallelism or {"strategy": "DDP", "dp_degree": 4}
    return SimulationConfig.model_validate(
        {
            "name": "gpt2",
            "hardware": {**NODE, "gpus_per_node": prod(each for each in plan.values() if isinstance(each, int))},
            "model": GPT2,
            "parallelism": plan,
            "training": {"batch_size_per_gpu": 2, "num_iterations": iterations},
            "simulation": {"lod": lod},
        }
    )


def of(settings: Mapping[str, Any], lod: str = "medium") -> SimulationConfig:
    """A scenario with these sections."""
    return SimulationConfig.model_validate({"name": "one", **settings, "simulation": {"lod": lod}})


def traced(config: SimulationConfig, probes: Iterable[Probe] = ()) -> tuple[RunResult, dict[str, Any]]:
    """The result of a run, and its trace."""
    trace, file = ScenarioTrace(config), io.StringIO()
    result = simulate(config, [trace.probe, *probes])
    trace.write(result, file)
    document: dict[str, Any] = json.loads(file.getvalue())
    return result, document


def slices(document: Mapping[str, Any], **wanted: Any) -> list[dict[str, Any]]:
    """The complete events with these values."""
    events = [each for each in document["traceEvents"] if each["ph"] == "X"]
    return [each for each in events if all(each[key] == value for key, value in wanted.items())]


def processes(document: Mapping[str, Any]) -> dict[int, str]:
    """Names of the processes by number."""
    named = [each for each in document["traceEvents"] if each["name"] == "process_name"]
    return {each["pid"]: each["args"]["name"] for each in named}


def assert_lanes_are_free(document: Mapping[str, Any]) -> None:
    """No two slices of a lane overlap; no lane has the number 0, which Perfetto takes for that of the process."""
    assert all(each["tid"] > 0 for each in slices(document))
    ends: dict[tuple[int, int], int] = {}
    ordered = sorted(slices(document), key=lambda each: (each["ts"], each["ts"] + each["dur"]))
    for each in ordered:
        lane, start_ns = (each["pid"], each["tid"]), round(each["ts"] * 1e3)
        assert start_ns >= ends.get(lane, 0), each
        ends[lane] = max(ends.get(lane, 0), start_ns + round(each["dur"] * 1e3))
