"""What makes serving fit."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.check import check_config
from simsys.check.advice import OTHERWISE
from simsys.check.remedies import changed, remedy_text
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
    "quantised weights before more GPUs": (
        serving({"gpu": "A100"}, "Llama3-70B"),
        {"serving.precision": "int8"},
    ),
    "more GPUs": (
        serving({"gpu": "L4"}, "Llama3-70B", serving={"precision": "int4", "kv_precision": "fp8"}),
        {"parallelism.tp_degree": 2, "hardware.gpus_per_node": 2},
    ),
    "pools of disaggregated replicas": (
        serving(
            {"profile": "dgx-h100"},
            "Llama3-70B",
            serving={"disaggregated": {"prefill_replicas": 4, "decode_replicas": 4}},
        ),
        {
            "serving.disaggregated.prefill_tp_degree": 2,
            "serving.disaggregated.prefill_replicas": 2,
            "serving.disaggregated.decode_tp_degree": 2,
            "serving.disaggregated.decode_replicas": 2,
        },
    ),
    "a fleet of replicas that come and go": (
        serving({"profile": "dgx-h100"}, "Llama3-70B", serving={"autoscaling": {"max_replicas": 8}}),
        {"parallelism.tp_degree": 2, "serving.autoscaling.max_replicas": 4},
    ),
    "more of the memory": (
        serving({"gpu": "A100"}, "Llama-2-7B", serving={"gpu_memory_utilization": 0.1}),
        {"serving.gpu_memory_utilization": 0.92},
    ),
    "fewer bytes and more GPUs": (
        serving({"gpu": "H100", "gpus_per_node": 2}, "Mixtral-8x22B", parallelism={"tp_degree": 2}),
        {"serving.precision": "fp8"},
    ),
    "stages, where heads allow no more ranks": (
        serving({"gpu": {"extends": "L4", "memory": "5.5 GB"}, "gpus_per_node": 8}, "Qwen2.5-7B"),
        {"parallelism.tp_degree": 4, "parallelism.pp_stages": 2},
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


@pytest.mark.parametrize("case", CASES)
def test_the_fix_is_the_best_and_makes_the_check_pass(case: str) -> None:
    config, expected = CASES[case]
    (problem,) = check_config(config)
    assert problem.fixes[0].edits == expected
    assert f"; {remedy_text(expected)} would fit (mean latency " in problem.message
    assert all(check_config(changed(config, fix.edits)) == [] for fix in problem.fixes)


def test_a_pipeline_over_more_nodes_comes_after_what_needs_no_more_gpus() -> None:
    config = serving({"profile": "dgx-a100"}, "Llama-3.1-405B", parallelism={"tp_degree": 8, "strategy": "TP"})
    (problem,) = check_config(config)
    first, *others = problem.fixes
    assert first.edits == {"serving.precision": "int8"}
    pipeline = {"parallelism.pp_stages": 2, "parallelism.strategy": "TP_PP", "hardware.num_nodes": 2}
    assert pipeline in [fix.edits for fix in others]


def test_without_a_fix_the_advice_says_what_it_would_take() -> None:
    config = serving({"profile": "dgx-v100"}, "DeepSeek-V3", serving={"precision": "fp16"})
    (problem,) = check_config(config)
    assert problem.fixes == ()
    assert problem.message.endswith(OTHERWISE)
