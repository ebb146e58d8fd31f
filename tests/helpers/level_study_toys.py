"""Tiny scenarios to compare, and a way to measure them without a process of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simsys.config.experiment import SimulationConfig
from simsys.level_study.compare import Settings


def at_once(function: Callable[..., Any], limit_s: float | None, *args: Any, **options: Any) -> Any:
    """Call a function in this process; the limit is not heeded."""
    return function(*args, **options)


SETTINGS = Settings(repeats=1, call=at_once)


def serving(**changes: Any) -> SimulationConfig:
    """Five requests of a few tokens on one GPU."""
    workload = {
        "arrivals": {"kind": "poisson", "rate": "4 req/s"},
        "prompt_tokens": 200,
        "output_tokens": 6,
        "num_requests": 5,
    }
    config = {"hardware": {"gpu": "H100-SXM"}, "model": {"name": "Llama3-8B"}, "serving": {}, "name": "chat"}
    return SimulationConfig(**{**config, "workload": {**workload, **changes.pop("workload", {})}, **changes})


def contended() -> SimulationConfig:
    """Two teams whose rings cross the same cable."""
    ends = [{"from": f"gpu{gpu}", "to": "left" if gpu % 4 < 2 else "right"} for gpu in range(8)]
    return serving(
        name="crossed",
        hardware={"gpu": "H100-SXM", "num_nodes": 8, "gpus_per_node": 1, "network_bandwidth": "25 GB/s"},
        network={"topology_type": "custom", "edges": [*ends, {"from": "left", "to": "right"}]},
        parallelism={"strategy": "TP", "tp_degree": 4, "dp_degree": 2},
        workload={"arrivals": {"kind": "constant", "rate": "100 req/s"}, "output_tokens": 3, "num_requests": 4},
        simulation={"occupy_links": True},
    )


def training(**changes: Any) -> SimulationConfig:
    """Four iterations of a small model on four GPUs."""
    return SimulationConfig(
        **{
            "name": "small",
            "hardware": {"profile": "dgx-a100", "gpus_per_node": 4},
            "model": {"name": "GPT2-Small"},
            "training": {"batch_size_per_gpu": 2, "num_iterations": 4},
            **changes,
        }
    )


def jobs() -> SimulationConfig:
    """Two of these beside each other."""
    return training(name="shared", jobs=[{"name": "one", "gpus": 2}, {"name": "other", "gpus": 2}])
