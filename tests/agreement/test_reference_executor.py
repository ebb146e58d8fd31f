"""High answers what a model of it in plain SimPy answers, which is slow and obvious."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from simsys.config.experiment import SimulationConfig
from simsys.executors import MIXTURES
from simsys.metrics.result import RunResult
from simsys.simulation import simulate
from tests.helpers import reference_executor

SERVING: dict[str, Any] = {
    "hardware": {"gpu": "MI300X"},
    "model": {"name": "Llama3-70B"},
    "serving": {},
    "workload": {
        "arrivals": {"kind": "poisson", "rate": "2 req/s"},
        "prompt_tokens": 512,
        "output_tokens": 20,
        "num_requests": 5,
    },
}
TENSOR = {
    **SERVING,
    "hardware": {"profile": "dgx-h100", "gpus_per_node": 2},
    "model": {"name": "Llama3-8B"},
    "parallelism": {"strategy": "TP", "tp_degree": 2},
    "workload": {**SERVING["workload"], "output_tokens": 6, "num_requests": 3},
}


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    reference_executor.register()
    yield
    del MIXTURES[reference_executor.NAIVE]


def run(config: dict[str, Any], lod: str) -> RunResult:
    return simulate(SimulationConfig(**config, simulation={"lod": "high"}), made_of=MIXTURES.get(lod))


@pytest.mark.parametrize("config", [SERVING, TENSOR], ids=["one GPU", "tensor"])
def test_every_request_takes_what_it_takes_with_resources_and_processes(config: dict[str, Any]) -> None:
    high, naive = run(config, "high"), run(config, reference_executor.NAIVE)
    for column in ("admitted_s", "first_token_s", "finished_s"):
        assert high.rows[column] == pytest.approx(naive.rows[column], rel=1e-9)
    for name in ("mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms", "request_throughput", "gpu_utilization", "steps"):
        assert high.metrics[name] == pytest.approx(naive.metrics[name], rel=1e-9)


def test_resources_and_processes_take_several_times_as_many_events() -> None:
    assert run(SERVING, reference_executor.NAIVE).events > 4 * run(SERVING, "high").events
    assert run(TENSOR, reference_executor.NAIVE).events > 20 * run(TENSOR, "high").events
