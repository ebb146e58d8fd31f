"""Serving configurations with a known capacity."""

from __future__ import annotations

from typing import Any

from simsys import SimulationConfig


def chat(rate_per_s: float = 1.0, **sections: Any) -> SimulationConfig:
    """Chat with a 7B model on one A100."""
    return SimulationConfig.model_validate(
        {
            "hardware": {"gpu": "A100-SXM-80GB", "gpus_per_node": 1},
            "model": {"name": "Llama2-7B"},
            "serving": {"engine": "vllm"},
            "slo": {"ttft": "1 s", "tpot": "50 ms", "attainment": 0.95},
            "workload": {
                "arrivals": {"kind": "poisson", "rate": f"{rate_per_s!r} req/s"},
                "prompt_tokens": {"kind": "lognormal", "mean": 1024},
                "output_tokens": {"kind": "lognormal", "mean": 256},
                "num_requests": 100,
            },
            **sections,
        }
    )


def one_seat(rate_per_s: float = 1.0, **sections: Any) -> SimulationConfig:
    """One server with constant service time: a batch of one, and requests of equal lengths."""
    serving = {"engine": "vllm", "max_num_seqs": 1, "api_overhead": "0 s"}
    lengths = {"workload.prompt_tokens": 512, "workload.output_tokens": 64}
    return chat(rate_per_s, serving=serving, **sections).with_(lengths)
