from __future__ import annotations

from typing import Any

import pytest

from simsys.check import check_config
from simsys.check.levers import changed, cheapest_lever, job_of, lever_text, memory_problem
from simsys.config.experiment import SimulationConfig
from simsys.simulation import build_job

WORKLOAD = {"arrivals": {"kind": "all_at_once"}, "prompt_tokens": 512, "output_tokens": 128, "num_requests": 4}


def training(gpu: str, model: str, batch: int, **settings: Any) -> SimulationConfig:
    return SimulationConfig(
        hardware={"gpu": gpu}, model={"name": model}, training={"batch_size_per_gpu": batch, **settings}
    )


def serving(hardware: dict[str, Any], model: str, **rest: Any) -> SimulationConfig:
    workload = {**WORKLOAD, **rest.pop("workload", {})}
    settings = {"hardware": hardware, "model": {"name": model}, "serving": rest.pop("serving", {}), **rest}
    return SimulationConfig(**settings, workload=workload)


def replicated(model: str, batch: int, *, num_nodes: int = 1, **parallelism: Any) -> SimulationConfig:
    return SimulationConfig(
        hardware={"profile": "dgx-h100", "num_nodes": num_nodes},
        model={"name": model},
        parallelism=parallelism,
        training={"batch_size_per_gpu": batch},
    )


CASES = {
    "a smaller batch": (
        training("H100", "GPT2-Medium", 4096),
        {"training.batch_size_per_gpu": 50},
    ),
    "recomputation, if even one sample is too much": (
        training({"extends": "H100", "memory": "28 GB"}, "GPT2-XL", 1),
        {"training.activation_recompute": "full"},
    ),
    "sgd, if states alone are too much": (
        training({"extends": "H100", "memory": "22 GB"}, "GPT2-XL", 1, activation_recompute="full"),
        {"training.optimizer": "sgd"},
    ),
    "both sgd and a smaller batch": (
        training({"extends": "H100", "memory": "22 GB"}, "GPT2-XL", 64, activation_recompute="full"),
        {"training.batch_size_per_gpu": 1, "training.optimizer": "sgd"},
    ),
    "shards in place of replicas": (
        replicated("Llama3-8B", 1, strategy="DDP"),
        {"parallelism.strategy": "FSDP"},
    ),
    "also where no strategy is given, with a smaller batch": (
        replicated("Llama3-8B", 8),
        {"training.batch_size_per_gpu": 1, "parallelism.strategy": "FSDP"},
    ),
    "shards beside the parallelism there is": (
        replicated("Llama3-70B", 1, num_nodes=16, strategy="TP_ZERO1", tp_degree=8),
        {"parallelism.strategy": "TP_FSDP"},
    ),
    "no further sharding of what is sharded": (
        replicated("Llama3-70B", 1, num_nodes=8, strategy="FSDP"),
        {"training.activation_recompute": "full"},
    ),
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
    "fewer bytes and more GPUs": (
        serving({"gpu": "H100", "gpus_per_node": 2}, "Mixtral-8x22B", parallelism={"tp_degree": 2}),
        {"serving.precision": "fp8"},
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
    job = build_job(config)
    (problem,) = check_config(config)
    assert cheapest_lever(job, tokens(config)) == expected
    assert problem.message.endswith(f"{lever_text(expected)} would fit")
    assert check_config(changed(config, expected)) == []


def test_the_batch_is_the_largest_that_fits() -> None:
    config = training("H100", "GPT2-Medium", 4096)
    job = build_job(config)
    lever = cheapest_lever(job)
    assert lever is not None
    batch = lever["training.batch_size_per_gpu"]
    one_more = changed(config, {"training.batch_size_per_gpu": batch + 1})
    assert memory_problem(job_of(one_more, job.cluster, job.model))


@pytest.mark.parametrize(
    "config",
    [
        training("H100", "GPT-3-175B", 1),
        serving({"profile": "dgx-v100"}, "DeepSeek-V3", serving={"precision": "fp16"}),
    ],
    ids=["training", "serving"],
)
def test_without_a_lever_the_advice_says_what_it_would_take(config: SimulationConfig) -> None:
    (problem,) = check_config(config)
    assert cheapest_lever(build_job(config)) is None
    assert problem.message.endswith(
        "no single setting makes it fit; a smaller model or a GPU with more memory is needed"
    )


def test_the_problem_lists_every_component() -> None:
    message = memory_problem(build_job(serving({"gpu": "A100"}, "Llama3-70B")))
    # 70.55 billion parameters at 2 bytes; 90 % of 80 GiB
    assert message.startswith("Llama3-70B does not fit into A100-SXM-80GB: 143 GB are needed (weights 141 GB, act")
    assert message.endswith("before any KV cache, 77.3 GB are usable")


def test_a_request_beyond_the_kv_cache_is_named() -> None:
    job = build_job(serving({"gpu": "L4"}, "Llama-3.1-8B"))
    capacity = job.num_blocks * 16
    assert memory_problem(job, capacity + 1) == ""
    assert f"room for {capacity} tokens" in memory_problem(job, capacity + 2)


def test_tensor_parallelism_is_left_when_the_cheaper_ones_are_used_up() -> None:
    config = SimulationConfig(
        hardware={"profile": "dgx-a100"},
        model={"name": "Megatron-22B"},
        parallelism={"strategy": "TP_DDP", "tp_degree": 2},
        training={"batch_size_per_gpu": 1, "activation_recompute": "full", "optimizer": "sgd"},
    )
    job = build_job(config.model_copy(update={"parallelism": config.parallelism.model_copy(update={"dp_degree": 4})}))
    lever = cheapest_lever(job)
    assert lever is not None
    assert not memory_problem(build_job(changed(job.config, lever)))
    assert set(lever) & {"parallelism.tp_degree", "parallelism.strategy"}
