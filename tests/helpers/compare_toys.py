"""Scenarios and results that tests of comparisons share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from simsys.comparisons.side import Side

TRAINING: dict[str, Any] = {
    "defaults": {
        "hardware": {"gpu": "A100-SXM-80GB", "gpus_per_node": 4},
        "model": {"name": "GPT2-Small"},
        "training": {"batch_size_per_gpu": 2, "num_iterations": 2, "engine": "megatron"},
    },
    "scenarios": [
        {"name": "ddp", "parallelism": {"strategy": "DDP", "dp_degree": 4}},
        {"name": "half", "parallelism": {"strategy": "DDP", "dp_degree": 4}, "training": {"batch_size_per_gpu": 1}},
    ],
}
SERVING: dict[str, Any] = {
    "name": "chat",
    "hardware": {"gpu": "H100-SXM", "gpus_per_node": 1},
    "model": {"name": "Llama3-8B"},
    "serving": {"engine": "vllm"},
    "workload": {
        "arrivals": {"kind": "poisson", "rate": "4 req/s"},
        "prompt_tokens": {"kind": "lognormal", "mean": 256},
        "output_tokens": 16,
        "num_requests": 30,
    },
}
BENCH: dict[str, Any] = {
    "completed": 30,
    "total_input_tokens": 7680,
    "total_output_tokens": 480,
    "request_throughput": 4.0,
    "output_throughput": 64.0,
    "mean_ttft_ms": 20.0,
    "mean_tpot_ms": 8.0,
    "mean_e2el_ms": 140.0,
    "p95_ttft_ms": 40.0,
}


def written(path: Path, content: dict[str, Any]) -> str:
    """Write a file of scenarios, or JSON, and return its path as text."""
    text = json.dumps(content) if path.suffix == ".json" else yaml.safe_dump(content)
    path.write_text(text, encoding="utf-8")
    return str(path)


def training_side(label: str = "a", **metrics: float) -> Side:
    """Results of training without known settings."""
    found = {"mean_iteration_s": 1.0, "compute_s": 0.75, "optimizer_s": 0.25, "exposed_communication_s": 0.125}
    return Side(label, "training", "results", label, runs=[{**found, "bubble_s": 0.125, **metrics}])
