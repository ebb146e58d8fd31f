"""Decoding at high detail: an event per segment and one per collective. Amounts are asserted; times only reported."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.config.experiment import SimulationConfig
from simsys.simulation import simulate

SEQUENCES = 16
OUTPUT_TOKENS = 1500
LAYERS = {"Llama3-8B": 32, "Llama3-70B": 80}


def scenario(model: str, tensor: int, **workload: Any) -> dict[str, Any]:
    """A batch that decodes until all of it ends, unless the workload is another."""
    return {
        "hardware": {"profile": "dgx-b200", "gpus_per_node": tensor},
        "model": {"name": model},
        "parallelism": {"tp_degree": tensor},
        "serving": {"engine": "vllm"},
        "workload": {
            "arrivals": {"kind": "closed_loop", "concurrency": SEQUENCES},
            "prompt_tokens": 128,
            "output_tokens": OUTPUT_TOKENS,
            "num_requests": SEQUENCES,
            **workload,
        },
        "simulation": {"lod": "high"},
    }


def events_per_step(model: str, tensor: int) -> int:
    """The host's part, every segment, every collective, and the event that the scheduler waits for."""
    layers = LAYERS[model]
    return 1 + ((2 * layers + 2) + (2 * layers + 2) if tensor > 1 else layers + 2) + 1


@pytest.mark.parametrize("tensor", [1, 4, 8])
@pytest.mark.parametrize("model", LAYERS)
def test_decode_iterations(measure: Any, model: str, tensor: int) -> None:
    """As many events per iteration as there are segments and collectives, whatever the number of GPUs."""
    config = scenario(model, tensor)
    steps = simulate(SimulationConfig(**config)).metrics["steps"]
    assert OUTPUT_TOKENS <= steps < OUTPUT_TOKENS + 8
    result = measure(config, "iterations", steps)
    assert 0 <= result.events - events_per_step(model, tensor) * steps <= 4 * SEQUENCES


def test_requests_that_come_and_go(measure: Any) -> None:
    """Traffic of changing batches on two GPUs."""
    requests = 300
    arrivals = {"kind": "poisson", "rate": "8 req/s"}
    traffic = {"arrivals": arrivals, "prompt_tokens": 512, "output_tokens": 128, "num_requests": requests}
    result = measure(scenario("Llama3-8B", 2, **traffic), "requests", requests)
    others = result.events - events_per_step("Llama3-8B", 2) * result.metrics["steps"]
    assert 0 <= others <= 4 * requests
