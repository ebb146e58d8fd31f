"""Training scenarios by chance for one engine, whose settings its tools may or may not be able to express."""

from __future__ import annotations

import random
from typing import Any

from tests.helpers.random_scenarios import training_scenario

MODELS = (
    "Llama3-8B",
    "Llama-3.1-70B",
    "Llama-2-7B",
    "Mixtral-8x7B",
    "GPT2-Medium",
    "GPT-3-175B",
    "Qwen3-8B",
    "BERT-Large",
)
TRAINING: dict[str, tuple[Any, ...]] = {
    "precision": ("fp32", "fp16", "bf16", "fp8"),
    "optimizer": ("adam", "sgd"),
    "fused_optimizer": (True, False),
    "activation_recompute": ("none", "selective", "half", "full", ["layernorm", "mlp"]),
    "attention": ("fused", "flash2", "unfused", "eager"),
    "norms": ("fused", "eager"),
    "checkpoint": (
        {"interval": 1, "storage_bandwidth": "2 GB/s"},
        {"interval": 1, "storage_bandwidth": "2 GB/s", "asynchronous": True},
    ),
    "data_loading": ({"time": "1 ms"},),
}
OPTIONS: dict[str, tuple[Any, ...]] = {
    "overlap": (True, False),
    "reduce_in_half": (True, False),
    "offload": ("none", "optimizer", "parameters"),
    "reshard_after_forward": (True, False),
    "shard_size": (2, 4),
}


def training_deployment(seed: int, engine: str) -> dict[str, Any]:
    """A scenario as an experiment file would hold it; some do not fit the schema or the rules."""
    r = random.Random(f"{engine} {seed}")
    data = training_scenario(seed)
    data["model"] = {"name": r.choice(MODELS)}
    if r.random() < 0.3:
        data["model"]["sequence_length"] = r.choice([512, 1024])
    data["hardware"] = {
        "profile": "dgx-h100",
        "num_nodes": data["hardware"]["num_nodes"],
        "gpus_per_node": data["hardware"]["gpus_per_node"],
    }
    data["network"] = {}
    share = r.choice([0.0, 0.05, 0.2])
    training = {
        key: value for key, value in data["training"].items() if key not in ("communication_pattern", "options")
    }
    training |= {name: r.choice(values) for name, values in TRAINING.items() if r.random() < share}
    options = {name: r.choice(values) for name, values in OPTIONS.items() if r.random() < share}
    if r.random() < 0.7:
        data["parallelism"].pop("order", None)
    if engine in ("torchtitan", "pytorch-fsdp") and r.random() < 0.7:
        data["parallelism"] = _with_fsdp(r, data["parallelism"])
    data["training"] = {**training, "engine": engine, **({"options": options} if options else {})}
    return data


def _with_fsdp(r: random.Random, parallelism: dict[str, Any]) -> dict[str, Any]:
    """The same degrees with a kind of data parallelism that FSDP2 has."""
    kinds = [
        kind
        for kind in parallelism["strategy"].split("_")
        if kind not in ("DDP", "ZERO1", "ZERO2", "FSDP", "HSDP", "None")
    ]
    kind = r.choice(["FSDP", "FSDP", "DDP"])
    sequence = {"sequence_parallel": True} if "tp_degree" in parallelism else {}
    return {**parallelism, **sequence, "strategy": "_".join([*kinds, kind])}
