"""The aspects in which scenarios differ."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.build.aspects import Aspects, aspects_of, different_aspects
from simsys.build.job import build_job
from simsys.config.experiment import SimulationConfig
from simsys.config.loader import deep_merge

TRAINING: dict[str, Any] = {
    "name": "a",
    "hardware": {"gpu": "A100", "gpus_per_node": 4},
    "model": {"name": "GPT2-Small"},
    "parallelism": {"tp_degree": 2, "dp_degree": 2, "strategy": "TP_DDP"},
    "training": {"batch_size_per_gpu": 2, "gradient_accumulation_steps": 2},
}
SERVING: dict[str, Any] = {
    "hardware": {"gpu": "H100"},
    "model": {"name": "Llama3-8B"},
    "serving": {"engine": "vllm"},
    "workload": {
        "arrivals": {"kind": "closed_loop", "concurrency": 4},
        "prompt_tokens": 64,
        "output_tokens": 8,
        "num_requests": 8,
    },
}


def aspects(scenario: dict[str, Any], changes: dict[str, Any]) -> Aspects:
    return aspects_of(build_job(SimulationConfig.model_validate(deep_merge(scenario, changes))))


@pytest.mark.parametrize(
    ("scenario", "changes", "differing"),
    [
        (TRAINING, {"name": "b", "simulation": {"seed": 7, "lod": "high"}}, []),
        (TRAINING, {"training": {"num_iterations": 3}}, []),
        (TRAINING, {"sweep": {"over": {"training.batch_size_per_gpu": [1, 2]}}}, []),
        (TRAINING, {"hardware": {"gpu": "H100"}}, ["GPU"]),
        (
            TRAINING,
            {"hardware": {"num_nodes": 2}, "parallelism": {"dp_degree": 4}},
            ["global batch", "number of GPUs or nodes"],
        ),
        (
            TRAINING,
            {
                "parallelism": {"tp_degree": 1, "dp_degree": 4, "strategy": "DDP"},
                "training": {"gradient_accumulation_steps": 1},
            },
            ["layout"],
        ),
        (TRAINING, {"training": {"batch_size_per_gpu": 4, "gradient_accumulation_steps": 1}}, ["micro-batch"]),
        (TRAINING, {"training": {"activation_recompute": "full"}}, ["activation recomputation"]),
        (TRAINING, {"training": {"optimizer": "sgd"}}, ["training.optimizer"]),
        (SERVING, {"workload": {"arrivals": {"concurrency": 8}}}, ["load or engine limits"]),
        (SERVING, {"serving": {"max_num_seqs": 8}}, ["load or engine limits"]),
        (SERVING, {"workload": {"prompt_tokens": 65}}, ["lengths"]),
        (SERVING, {"workload": {"num_requests": 9}}, []),
        (SERVING, {"serving": {"engine": "sglang"}, "model": {"name": "Llama2-7B"}}, ["engine", "model"]),
    ],
)
def test_changed_settings_belong_to_aspects(
    scenario: dict[str, Any], changes: dict[str, Any], differing: list[str]
) -> None:
    assert different_aspects(aspects(scenario, {}), aspects(scenario, changes)) == differing


def test_a_release_comes_with_the_engine() -> None:
    release = {"serving": {"engine_release": "0.10"}}
    assert different_aspects(aspects(SERVING, {}), aspects(SERVING, release)) == ["engine release"]
    other = {"serving": {"engine": "sglang"}}
    assert different_aspects(aspects(SERVING, release), aspects(SERVING, other)) == ["engine"]


def test_nodes_come_with_the_gpu() -> None:
    nodes = {"parallelism": {"tp_degree": 1, "dp_degree": 8, "strategy": "DDP"}, "hardware": {"gpus_per_node": None}}
    one = aspects(TRAINING, deep_merge(nodes, {"hardware": {"profile": "dgx-a100", "gpu": None}}))
    other = aspects(TRAINING, deep_merge(nodes, {"hardware": {"profile": "dgx-h100", "gpu": None}}))
    assert different_aspects(one, other) == ["GPU"]
