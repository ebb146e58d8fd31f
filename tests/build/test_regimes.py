"""Regimes of scenarios: those that decide how well their figures are known from measurements."""

from __future__ import annotations

from typing import Any

import pytest

from simsys import SimulationConfig
from simsys.build.job import build_job
from simsys.build.regimes import regimes_of

TRAINING: dict[str, Any] = {
    "hardware": {"gpu": "A100", "gpus_per_node": 8},
    "model": {"name": "GPT2-Small"},
    "training": {"batch_size_per_gpu": 1},
}
SERVING: dict[str, Any] = {
    "hardware": {"gpu": "H100", "gpus_per_node": 1},
    "model": {"name": "Llama3-8B"},
    "serving": {},
    "workload": {
        "arrivals": {"kind": "poisson", "rate": "2 req/s"},
        "prompt_tokens": 64,
        "output_tokens": 8,
        "num_requests": 8,
    },
}
FOUR = {"gpu": "H100", "gpus_per_node": 4}
TWO = {"gpu": "A100", "gpus_per_node": 8, "num_nodes": 2}
SESSIONS = {"turns": 2, "think_time": "1 s"}


def regimes(base: dict[str, Any], changes: dict[str, Any], **more: bool) -> list[str]:
    whole = {
        key: {**base.get(key, {}), **changes.get(key, {})} if isinstance(base.get(key, {}), dict) else changes[key]
        for key in {**base, **changes}
    }
    return regimes_of(build_job(SimulationConfig(**whole)), **more)


@pytest.mark.parametrize("base", [TRAINING, SERVING], ids=["training", "serving"])
def test_the_plainest_scenario_is_in_none(base: dict[str, Any]) -> None:
    assert regimes(base, {}) == []


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"hardware": TWO}, ["several nodes"]),
        ({"parallelism": {"strategy": "FSDP"}}, ["FSDP"]),
        ({"parallelism": {"strategy": "HSDP"}}, ["FSDP"]),
        ({"parallelism": {"strategy": "ZERO1"}}, ["ZeRO-1"]),
        ({"parallelism": {"strategy": "ZERO2"}}, ["ZeRO-2"]),
        ({"parallelism": {"strategy": "TP_DDP", "tp_degree": 2}}, ["tensor parallelism"]),
        ({"parallelism": {"strategy": "PP_DDP", "pp_stages": 2}}, ["pipeline parallelism"]),
        ({"parallelism": {"strategy": "CP_DDP", "cp_degree": 2}}, ["context parallelism"]),
        ({"model": {"name": "ResNet-50"}}, ["CNNs and models written layer by layer"]),
        ({"model": {"name": "BERT-Base"}}, ["encoders"]),
        ({"model": {"name": "T5-Large"}}, ["encoder-decoders"]),
        ({"training": {"activation_recompute": "full"}}, ["activation recomputation"]),
        ({"training": {"precision": "tf32", "mixed_precision": False}}, ["computation in tf32"]),
        ({"training": {"options": {"compression": "powersgd"}}}, ["compressed gradients"]),
        ({"training": {"options": {"compression": "fp16"}}}, []),
        ({"hardware": {"jitter": {"compute": 0.1}}}, ["hardware that varies"]),
        ({"simulation": {"occupy_links": True}}, ["links that jobs or replicas share"]),
        (
            {"hardware": {"gpu": {"extends": "A100-SXM-80GB", "memory": "40 GiB"}}},
            ["a GPU that is described in the experiment"],
        ),
    ],
)
def test_what_a_training_run_is_besides(changes: dict[str, Any], found: list[str]) -> None:
    assert regimes(TRAINING, changes) == found


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        (
            {"model": {"name": "Mixtral-8x7B"}, "hardware": FOUR, "parallelism": {"tp_degree": 4}},
            ["mixture of experts"],
        ),
        ({"serving": {"precision": "fp8"}}, ["weights in fp8"]),
        ({"serving": {"precision": "fp8_block"}}, ["weights in fp8"]),
        ({"serving": {"precision": "int4"}}, ["weights in int4"]),
        ({"serving": {"speculative": {"draft_tokens": 2, "acceptance_rate": 0.7}}}, ["speculative decoding"]),
        ({"serving": {"prefix_caching": True}}, []),  # as nobody shares
        ({"workload": SERVING["workload"] | {"prefixes": {"tokens": 32}}}, ["prefix caching"]),
        ({"serving": {"prefix_caching": False}, "workload": SERVING["workload"] | {"prefixes": {"tokens": 32}}}, []),
        ({"serving": {"lora": {"adapters": 2, "rank": 8}}}, ["adapters"]),
        ({"serving": {"preemption": "swap"}}, ["swapping"]),
        ({"hardware": FOUR}, ["several replicas"]),
        ({"hardware": FOUR, "parallelism": {"tp_degree": 4}}, []),
        ({"hardware": FOUR, "parallelism": {"tp_degree": 2, "pp_stages": 2}}, ["pipeline parallelism"]),
        (
            {"hardware": FOUR, "serving": {"disaggregated": {"prefill_replicas": 2, "decode_replicas": 2}}},
            ["disaggregated prefill and decode"],
        ),
        ({"hardware": FOUR, "serving": {"autoscaling": {}}}, ["several replicas", "autoscaling"]),
        (
            {"hardware": {"gpu": "H100", "gpus_per_node": 1, "num_nodes": 2}, "parallelism": {"tp_degree": 2}},
            ["replicas on several nodes"],
        ),
    ],
)
def test_what_a_serving_run_is_besides(changes: dict[str, Any], found: list[str]) -> None:
    assert regimes(SERVING, changes) == found


def test_jobs_share_links() -> None:
    assert regimes(TRAINING, {}, shared=True) == ["links that jobs or replicas share"]
