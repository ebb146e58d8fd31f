"""What makes serving fit."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.build.job import build_job
from simsys.check import check_config
from simsys.check.advice import cheapest_lever
from simsys.check.levers import changed, lever_text
from simsys.config.experiment import SimulationConfig

WORKLOAD = {"arrivals": {"kind": "all_at_once"}, "prompt_tokens": 512, "output_tokens": 128, "num_requests": 4}


def serving(hardware: dict[str, Any], model: str, **rest: Any) -> SimulationConfig:
    workload = {**WORKLOAD, **rest.pop("workload", {})}
    settings = {"hardware": hardware, "model": {"name": model}, "serving": rest.pop("serving", {}), **rest}
    return SimulationConfig(**settings, workload=workload)


CASES = {
    "the GPUs that are there": (
        serving({"profile": "dgx-h100"}, "Llama3-70B"),
        {"parallelism.tp_degree": 2},
    ),
    "with the strategy and replicas that go with it": (
        serving({"profile": "dgx-h100"}, "Llama3-70B", parallelism={"strategy": "None", "dp_degree": 8}),
        {"parallelism.tp_degree": 2, "parallelism.strategy": "TP", "parallelism.dp_degree": 4},
    ),
    "a smaller precision": (
        serving({"gpu": "H100"}, "Llama3-70B"),
        {"serving.precision": "fp8"},
    ),
    "smaller steps": (
        serving({"gpu": "A100"}, "Llama3-8B", serving={"max_num_batched_tokens": 1_000_000}),
        {"serving.max_num_batched_tokens": 500_000},
    ),
    "more GPUs": (
        serving({"gpu": "A100"}, "Llama3-70B"),
        {"parallelism.tp_degree": 2, "hardware.gpus_per_node": 2},
    ),
    "more GPUs of a node of which one is used": (
        serving({"profile": "dgx-a100", "gpus_per_node": 1}, "Llama3-70B"),
        {"parallelism.tp_degree": 2, "hardware.gpus_per_node": 2},
    ),
    "more of the memory": (
        serving({"gpu": "A100"}, "Llama-2-7B", serving={"gpu_memory_utilization": 0.1}),
        {"serving.gpu_memory_utilization": 0.9},
    ),
    "fewer bytes and more GPUs": (
        serving({"gpu": "H100", "gpus_per_node": 2}, "Mixtral-8x22B", parallelism={"tp_degree": 2}),
        {"serving.precision": "fp8"},
    ),
    "stages, where heads allow no more ranks": (
        serving({"gpu": {"extends": "L4", "memory": "5.5 GB"}, "gpus_per_node": 8}, "Qwen2.5-7B"),
        {"parallelism.tp_degree": 4, "parallelism.pp_stages": 2},
    ),
    "a pipeline over more nodes": (
        serving({"profile": "dgx-a100"}, "Llama-3.1-405B", parallelism={"tp_degree": 8, "strategy": "TP"}),
        {"parallelism.pp_stages": 2, "parallelism.strategy": "TP_PP", "hardware.num_nodes": 2},
    ),
    "whole experts along with the degree": (
        serving({"profile": "dgx-a100"}, "Mixtral-8x22B", parallelism={"tp_degree": 2, "ep_degree": 2}),
        {"parallelism.tp_degree": 4, "parallelism.ep_degree": 4},
    ),
    "quantised weights, where layers cannot be divided": (
        serving({"profile": "dgx-a100"}, "DeepSeek-V3", parallelism={"tp_degree": 8}),
        {"serving.precision": "int4"},
    ),
    "room for the shortest request": (
        serving({"gpu": "L4", "gpus_per_node": 2}, "Llama-3.1-8B", workload={"prompt_tokens": 60_000}),
        {"parallelism.tp_degree": 2},
    ),
}


def tokens(config: SimulationConfig) -> int:
    workload = config.workload
    return 1 if workload is None else workload.prompt_tokens.tokens + workload.output_tokens.tokens


@pytest.mark.parametrize("case", CASES)
def test_the_lever_is_the_cheapest_and_makes_the_check_pass(case: str) -> None:
    config, expected = CASES[case]
    (problem,) = check_config(config)
    assert cheapest_lever(build_job(config), tokens(config)) == expected
    assert problem.message.endswith(f"{lever_text(expected)} would fit")
    assert check_config(changed(config, expected)) == []


def test_without_a_lever_the_advice_says_what_it_would_take() -> None:
    config = serving({"profile": "dgx-v100"}, "DeepSeek-V3", serving={"precision": "fp16"})
    (problem,) = check_config(config)
    assert cheapest_lever(build_job(config)) is None
    assert problem.message.endswith(
        "no single setting makes it fit; a smaller model or a GPU with more memory is needed"
    )
