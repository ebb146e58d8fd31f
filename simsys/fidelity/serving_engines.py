"""What engines are called in tables of serving runs, and how they are set up in benchmarks."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from simsys.fidelity.case import Unsupported


@dataclass(frozen=True)
class EngineSetup:
    """An engine as benchmarks run it.

    Args:
        profile: The engine profile.
        scheduler: The policy nearest to its own.
        step_tokens: Most tokens of a step.
        sequences: Most sequences of a step, where the load does not say how many there are.
        cache_as_weights: Whether weights in 8 bit or less come with a KV cache in fp8; else it is in 16 bit.
        tensor_parallel: Whether several GPUs share each layer; else it is not modelled how they share the model.
        beyond_context: Whether it answers beyond the longest sequence of the model; else it refuses, or ends early.
    """

    profile: str
    scheduler: str = "chunked_prefill"
    step_tokens: int = 8192
    sequences: int = 1024
    cache_as_weights: bool = False
    tensor_parallel: bool = True
    beyond_context: bool = False


VLLM = EngineSetup("vllm", cache_as_weights=True)
VLLM_V0 = EngineSetup("vllm-v0", scheduler="vllm_v0")
VLLM_2023 = EngineSetup("pytorch-eager", scheduler="vllm_v0")
TENSORRT_LLM = EngineSetup(
    "tensorrt-llm", scheduler="orca", sequences=2048, cache_as_weights=True, beyond_context=True
)
TENSORRT_LLM_CPP = replace(TENSORRT_LLM, profile="tensorrt-llm-cpp", step_tokens=2048)
SGLANG = EngineSetup("sglang", scheduler="vllm_v0", cache_as_weights=True)
TRANSFORMERS = EngineSetup("pytorch-eager", scheduler="static_batching", tensor_parallel=False)

ENGINES: tuple[tuple[str, EngineSetup], ...] = (
    ("vllmsplitwise", VLLM_2023),
    ("vllm", VLLM),
    ("tensorrtllm", TENSORRT_LLM),
    ("nvidiatensorrtllm", TENSORRT_LLM),
    ("trtllm", TENSORRT_LLM),
    ("nim", TENSORRT_LLM),
    ("sglang", SGLANG),
    ("gptfast", EngineSetup("gpt-fast")),
    ("deepspeedmii", EngineSetup("deepspeed-mii")),
    ("deepspeed", EngineSetup("deepspeed-inference")),
    ("lmdeploy", EngineSetup("lmdeploy")),
    ("transformers", TRANSFORMERS),
    ("huggingface", TRANSFORMERS),
)
"""Beginnings of names, letters and digits alone; the first that fits counts."""

OLDER = (
    (VLLM, r"2023|0\.[0-2]\.", VLLM_2023),
    (VLLM, r"2024|0\.[3-7]\.", VLLM_V0),
    (TENSORRT_LLM, r"202[34]|0\.", TENSORRT_LLM_CPP),
)
"""What earlier versions were, by the beginning of the year or release; without a version, it is the newest."""


def engine_setup(name: str, version: str = "") -> EngineSetup:
    """How an engine is set up.

    Args:
        name: As a table has it.
        version: Likewise; a year or a release.

    Raises:
        Unsupported: There is no profile of it.
    """
    key = re.sub(r"[^a-z0-9]", "", name.casefold())
    found = next((setup for beginning, setup in ENGINES if key.startswith(beginning)), None)
    if found is None:
        raise Unsupported(f"no profile of engine {name}")
    return next((older for newest, past, older in OLDER if found is newest and re.match(past, version)), found)
