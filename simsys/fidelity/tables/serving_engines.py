"""What engines are called in tables of serving runs, and how they are set up in benchmarks."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from simsys.build.resolved_serving import ASSUMED
from simsys.config.engine_defaults import ServingDefaults
from simsys.config.hardware import load_engine
from simsys.fidelity.case import Unsupported
from simsys.framework import FRAMEWORKS, Scheduler


@dataclass(frozen=True)
class EngineSetup:
    """An engine as benchmarks run it: as it is by default, but for what is said here.

    Args:
        profile: The engine profile.
        scheduler: The policy nearest to its own.
        step_tokens: Most tokens of a step.
        cache_as_weights: Whether weights in 8 bit or less come with a KV cache in fp8; else it is in 16 bit.
        tensor_parallel: Whether several GPUs share each layer; else it is not modelled how they share the model.
        beyond_context: Whether it answers beyond the longest sequence of the model; else it refuses, or ends early.
    """

    profile: str
    scheduler: str | None = None
    step_tokens: int | None = None
    cache_as_weights: bool = False
    tensor_parallel: bool = True
    beyond_context: bool = False

    @property
    def least_step_tokens(self) -> int:
        """Tokens of a step, on the smallest GPUs if they differ."""
        if self.step_tokens is not None:
            return self.step_tokens
        return min(case.value for case in self._defaults.max_num_batched_tokens)

    @property
    def cuts_prompts(self) -> bool:
        """Whether a prompt may be spread over steps."""
        name = self.scheduler or self._defaults.scheduler[-1].value
        return FRAMEWORKS.get(name, Scheduler).cuts_prompts

    @property
    def _defaults(self) -> ServingDefaults:
        return load_engine(self.profile).defaults or ASSUMED


VLLM = EngineSetup("vllm", cache_as_weights=True)
VLLM_V0 = EngineSetup("vllm-v0")
VLLM_2023 = EngineSetup("pytorch-eager", scheduler="vllm_v0", step_tokens=8192)
TENSORRT_LLM = EngineSetup("tensorrt-llm", cache_as_weights=True, beyond_context=True)
TENSORRT_LLM_CPP = replace(TENSORRT_LLM, profile="tensorrt-llm-cpp", step_tokens=2048)
SGLANG = EngineSetup("sglang", cache_as_weights=True)
TRANSFORMERS = EngineSetup("pytorch-eager", scheduler="static_batching", step_tokens=8192, tensor_parallel=False)

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


def release_of(profile: str, version: str) -> str | None:
    """The release of an engine, by its numbers; None if a version does not say it, or its profile is not of it.

    Args:
        profile: The engine profile.
        version: As a table has it, such as ``1.2.0rc6.post3``.
    """
    found, defaults = re.match(r"\d{1,3}(\.\d{1,3}){1,2}(?!\d)", version), load_engine(profile).defaults
    if found is None or defaults is None or not defaults.describes(found.group()):
        return None
    return found.group()
