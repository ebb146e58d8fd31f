"""Which steps are replayed as CUDA graphs."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from tests.build.test_serving_setup import job

SGLANG = {"engine": "sglang", "engine_release": "0.5.10", "max_num_batched_tokens": 8192}


@pytest.mark.parametrize(
    ("serving", "decode", "prompt"),
    [
        ({}, 512.0, 512.0),
        ({"cuda_graphs": False}, 0.0, 0.0),
        ({"cuda_graphs": "decode_only"}, 512.0, 0.0),
        ({"max_cudagraph_capture_size": 64}, 64.0, 64.0),
        ({"engine": "pytorch-eager"}, 0.0, 0.0),
        ({"engine": "gpt-fast"}, inf, 0.0),
        (SGLANG, 160.0, 8192.0),
        ({**SGLANG, "engine_release": "0.5.9"}, 160.0, 0.0),
        ({**SGLANG, "cuda_graphs": "decode_only"}, 160.0, 0.0),
        ({**SGLANG, "max_cudagraph_capture_size": 64}, 64.0, 8192.0),
        ({**SGLANG, "speculative": {"draft_tokens": 3, "acceptance_rate": 0.7}}, 160.0, 0.0),
        ({**SGLANG, "lora": {"adapters": 2, "rank": 8}}, 160.0, 0.0),
    ],
)
def test_the_engine_says_which_steps_are_replayed_unless_the_scenario_does(
    serving: dict[str, Any], decode: float, prompt: float
) -> None:
    made = job(serving=serving)
    assert (made.replayed.decode_tokens, made.replayed.prompt_tokens) == (decode, prompt)
    assert (made.launches.graph_tokens, made.launches.prompt_graph_tokens) == (decode, prompt)
    assert made.launches.per_layer_s == (made.engine.launch_per_layer or 0.0) / made.cluster.spec.host_speed


@pytest.mark.parametrize(
    ("model", "hardware", "prompt"),
    [
        ("DeepSeek-V3", {"gpus": 8, "gpu": "B200-SXM", "parallelism": {"tp_degree": 8}}, 2048.0),
        ("Llama3-8B", {"gpu": "MI300X"}, 0.0),
        ("Llama3-8B", {"gpus": 2, "parallelism": {"pp_stages": 2}}, 0.0),
    ],
    ids=["latent", "ROCm", "pipeline"],
)
def test_pieces_are_replayed_where_the_engine_can(model: str, hardware: dict[str, Any], prompt: float) -> None:
    assert job(model, serving=SGLANG, **hardware).replayed.prompt_tokens == prompt
