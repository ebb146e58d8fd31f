"""Settings of serving with the defaults of the engine filled in, and the sources of these defaults.

This is the one place where defaults of engines become settings. They are data of the engine profiles
(`simsys.config.engine_defaults`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from simsys.build.cluster import Cluster
from simsys.config.engine_defaults import Case, ServingDefaults
from simsys.config.engine_schema import EngineProfile
from simsys.config.serving import CACHE_SIZES, ServingConfig, step_problem
from simsys.errors import UsageError
from simsys.model.model import Model

_STEP = ("max_num_batched_tokens", "max_num_seqs")
ASSUMED = ServingDefaults.model_validate(
    {
        "release": "0",
        "scheduler": "chunked_prefill",
        "max_num_seqs": 256,
        "max_num_batched_tokens": 2048,
        "block_size": 16,
    }
)
"""Defaults for an engine profile that states none, because the engine has no server or its defaults are unknown."""


@dataclass(frozen=True)
class Default:
    """A default of an engine.

    Args:
        value: The value.
        who: The engine and its release as text; empty for a default of simsys.
        when: Its conditions as text; empty if it always applies.
    """

    value: Any
    who: str
    when: str = ""

    @property
    def source(self) -> str:
        """The engine and the conditions of the default, as text."""
        return f"{self.who} ({self.when})" if self.when else self.who


class ResolvedServing(ServingConfig):
    """Settings of serving with a value for each setting.

    `release` is the release of the engine. `defaults` are its defaults for this release, GPU and model, by setting,
    used or not; `used` are the ones that apply here.
    """

    scheduler: str
    max_num_seqs: int
    max_num_batched_tokens: int
    block_size: int
    gpu_memory_utilization: float
    free_gpu_memory_fraction: float
    release: str
    defaults: dict[str, Default]
    used: dict[str, Default]


def resolved_serving(
    settings: ServingConfig, engine: EngineProfile, cluster: Cluster, model: Model
) -> ResolvedServing:
    """The settings with the defaults of the engine; written settings take precedence.

    Args:
        settings: The written settings.
        engine: The engine profile.
        cluster: The cluster; the GPU with the least memory decides.
        model: The model; its context may decide.

    Raises:
        UsageError: If the profile does not describe the release, or if a step has no room for all its sequences.
    """
    defaults = dict(_defaults(settings, engine, cluster, settings.max_model_len or model.max_context_tokens))
    written = {name: getattr(settings, name) for name in type(settings).model_fields}
    used = {name: default for name, default in defaults.items() if written[name] is None}
    for name in _replaced(settings, used):
        used[name] = Default(1.0, "")
    _fit_sequences(settings, used)
    found = {**written, **{name: default.value for name, default in used.items()}}
    problem = step_problem(found["max_num_batched_tokens"], found["max_num_seqs"], settings.drafted)
    if problem:
        shown = "".join(f"; {name} is {used[name].source}" for name in _STEP if name in used)
        raise UsageError(problem + shown)
    counting = {name: default for name, default in used.items() if default.who}
    return ResolvedServing.model_construct(
        **found, release=_release(settings, engine), defaults=defaults, used=counting
    )


def _replaced(settings: ServingConfig, used: Mapping[str, Default]) -> Iterator[str]:
    """Defaults of the size of the KV cache that a written setting of its size replaces."""
    if any(getattr(settings, name) is not None for name in CACHE_SIZES):
        yield from (name for name in CACHE_SIZES if name in used)


def _fit_sequences(settings: ServingConfig, used: dict[str, Default]) -> None:
    """Lower the sequences of a step to its tokens if the sequences are not written, as vLLM does."""
    sequences = used.get("max_num_seqs")
    if sequences is None:
        return
    tokens = used["max_num_batched_tokens"].value if "max_num_batched_tokens" in used else None
    most = max(1, (tokens or settings.max_num_batched_tokens or sequences.value) // (1 + settings.drafted))
    if most < sequences.value:
        used["max_num_seqs"] = Default(most, sequences.who, f"{sequences.value}, lowered to the tokens of a step")


def _release(settings: ServingConfig, engine: EngineProfile) -> str:
    """The written release of the engine, or the release that its profile describes."""
    return settings.engine_release or (engine.defaults or ASSUMED).release


def _defaults(
    settings: ServingConfig, engine: EngineProfile, cluster: Cluster, context_tokens: int
) -> Iterator[tuple[str, Default]]:
    """The defaults of the engine, by setting."""
    own = engine.defaults
    release = _release(settings, engine)
    if own is None and settings.engine_release is not None:
        raise UsageError(f"the profile of {engine.name} does not differ by release; remove engine_release")
    if own is not None and not own.describes(release):
        span = " and ".join(
            filter(None, [own.since and f"from {own.since} on", own.before and f"before {own.before}"])
        )
        raise UsageError(f"{engine.name} is of releases {span}, not of {release}; name another engine or release")
    who = f"default of {engine.name} {release}" if own is not None else f"assumed for {engine.name}, which states none"
    for name in (name for name in ServingDefaults.model_fields if name in type(engine).model_fields):
        yield name, Default(getattr(engine, name) or False, who)
    yield "free_gpu_memory_fraction", Default(1.0, "")
    stated = own or ASSUMED
    for name in ServingDefaults.model_fields:
        cases = getattr(stated, name)
        if isinstance(cases, tuple):
            yield name, _first(cases, who, release, cluster, context_tokens)


def _first(cases: tuple[Case[Any], ...], who: str, release: str, cluster: Cluster, context_tokens: int) -> Default:
    """The first value with conditions that hold."""
    gpu, memory_bytes = cluster.gpu.name, cluster.smallest.memory_bytes
    case = next(case for case in cases if case.holds(release, gpu, memory_bytes, context_tokens))
    before = [each.conditions for each in cases[: cases.index(case)]]
    why = case.conditions or (f"not {'; not '.join(before)}" if before else "")
    value = case.value
    if case.or_context and context_tokens > value:
        value, why = context_tokens, ", ".join(filter(None, [why, "the longest context"]))
    return Default(value, who, why)


def defaults_text(settings: ResolvedServing) -> list[str]:
    """The used defaults with their sources, a line for each source.

    Example:
        ``default of vllm 0.22: block_size 16, max_num_seqs 1024 (GPUs of 70 GiB or more but A100)``
    """
    found: dict[str, list[str]] = {}
    for name, default in settings.used.items():
        when = f" ({default.when})" if default.when else ""
        found.setdefault(default.who, []).append(f"{name} {_shown(default.value)}{when}")
    return [f"{who}: {', '.join(values)}" for who, values in found.items()]


def defaults_dict(settings: ResolvedServing) -> dict[str, dict[str, Any]]:
    """The used defaults with their sources, by setting, as values for JSON."""
    return {name: {"value": default.value, "from": default.source} for name, default in settings.used.items()}


def _shown(value: Any) -> str:
    """A value as text in YAML."""
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
