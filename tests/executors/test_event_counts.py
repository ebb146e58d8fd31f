"""How many events a scenario takes: exact amounts, which hold on any machine, where times do not."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.config.experiment import SimulationConfig
from simsys.metrics.result import RunResult
from simsys.simulation import simulate

REQUESTS = 20


def serving(lod: str, model: str, tensor: int = 1, stages: int = 1, output_tokens: int = 128) -> RunResult:
    return simulate(
        SimulationConfig(
            hardware={"profile": "dgx-b200", "gpus_per_node": tensor * stages},
            model={"name": model},
            parallelism={"tp_degree": tensor, "pp_stages": stages},
            serving={},
            workload={
                "arrivals": {"kind": "constant", "rate": "4 req/s"},
                "prompt_tokens": 512,
                "output_tokens": output_tokens,
                "num_requests": REQUESTS,
            },
            simulation={"lod": lod},
        )
    )


def training(lod: str, nodes: int, **settings: Any) -> RunResult:
    return simulate(
        SimulationConfig(
            hardware={"profile": "dgx-a100", "num_nodes": nodes},
            model={"name": "GPT2-Small"},
            parallelism={"strategy": "DDP"},
            training={"batch_size_per_gpu": 4, "num_iterations": 2, **settings},
            simulation={"lod": lod},
        )
    )


@pytest.mark.parametrize(("model", "layers"), [("Llama3-8B", 32), ("Llama3-70B", 80)])
def test_high_serving_takes_an_event_per_layer(model: str, layers: int) -> None:
    result = serving("high", model)
    blocks = layers + 2  # embedding and head
    per_step = 1 + blocks + 1  # the host's part, every block, the event the scheduler waits for
    others = result.events - per_step * result.metrics["steps"]
    assert 0 < others <= 4 * REQUESTS


def test_medium_serving_takes_two_events_per_request_or_less_whatever_the_model_and_the_output() -> None:
    counts = set()
    for model, tensor in (("Llama3-8B", 1), ("Llama3-70B", 2), ("Llama3-70B", 8)):
        result = serving("medium", model, tensor)
        counts.add(result.events <= 2 * REQUESTS < result.metrics["steps"])
    assert counts == {True}


@pytest.mark.parametrize("stages", [2, 4])
def test_medium_pipelines_take_a_few_events_per_request_however_many_tokens_it_gets(stages: int) -> None:
    for output_tokens in (128, 512):
        result = serving("medium", "Llama3-70B", 2, stages, output_tokens)
        assert result.events <= 7 * REQUESTS < 0.25 * result.metrics["steps"]


@pytest.mark.parametrize("tensor", [2, 4, 8])
def test_high_tensor_parallelism_takes_an_event_per_collective_whatever_the_number_of_gpus(tensor: int) -> None:
    result = serving("high", "Llama3-8B", tensor)
    exchanges = 2 * 32 + 1 + 1  # two per layer, one after the embedding, the gathered logits
    per_step = 1 + (32 * 2 + 2) + exchanges + 1  # the host's part, every segment, the event the scheduler waits for
    assert 0 < result.events - per_step * result.metrics["steps"] <= 4 * REQUESTS


def test_medium_training_takes_an_event_per_bucket_whatever_the_number_of_ranks() -> None:
    small, large = (training("medium", nodes) for nodes in (1, 8))
    assert small.events == large.events
    assert training("high", 1).events > 8 * small.events


def test_gradient_accumulation_adds_no_events_at_medium() -> None:
    once, often = (training("medium", 1, gradient_accumulation_steps=steps) for steps in (1, 8))
    assert often.events == once.events


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "interleaved", "zero_bubble"])
def test_micro_batches_of_a_pipeline_add_no_events_at_medium(schedule: str) -> None:
    few, many = (
        simulate(
            SimulationConfig(
                hardware={"profile": "dgx-a100", "gpus_per_node": 4},
                model={"name": "GPT2-Small"},
                parallelism={
                    "strategy": "PP",
                    "pp_stages": 4,
                    "schedule": schedule,
                    "virtual_stages": 3 if schedule == "interleaved" else 1,
                },
                training={"batch_size_per_gpu": 1, "num_iterations": 1, "gradient_accumulation_steps": steps},
                simulation={"lod": "medium"},
            )
        )
        for steps in (16, 64)
    )
    assert many.events == few.events
    assert many.metrics["mean_iteration_s"] > 3 * few.metrics["mean_iteration_s"]


def test_stepping_changes_no_figure_of_any_request_and_no_step_is_an_event() -> None:
    config = {
        "hardware": {"profile": "dgx-a100", "gpus_per_node": 2},
        "model": {"name": "Llama-2-7B"},
        "workload": {
            "arrivals": {"kind": "poisson", "rate": "12 req/s"},
            "prompt_tokens": {"kind": "lognormal", "mean": 400},
            "output_tokens": {"kind": "lognormal", "mean": 100},
            "num_requests": 100,
        },
    }
    serving = {"router": "least_outstanding", "gpu_memory_utilization": 0.25}
    runs, steps = (
        simulate(SimulationConfig(**config, serving={**serving, "stepping": stepping})) for stepping in (False, True)
    )
    assert runs.rows == steps.rows
    assert runs.metrics["steps"] == steps.metrics["steps"]
    assert runs.metrics["p99_itl_ms"] == pytest.approx(steps.metrics["p99_itl_ms"], rel=1e-12)
    assert max(runs.events, steps.events) < 10 < runs.metrics["steps"]
