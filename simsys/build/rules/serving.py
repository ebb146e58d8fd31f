"""Checks whether the options of an engine fit the engine, the GPU and the model."""

from __future__ import annotations

from simsys.build.rules.engine import engines
from simsys.build.rules.findings import Findings, Remedy, Suggestion
from simsys.build.rules.registry import Parts, rule
from simsys.build.serving_precision import kv_precision
from simsys.errors import Problem
from simsys.model.precision import half_of

GRAPH_SIZE = ("serving", "max_cudagraph_capture_size")


@rule("serving.cuda_graphs")
def graphs(parts: Parts, found: Findings) -> None:
    """Settings of CUDA graphs need an engine with CUDA graphs, and their size needs graphs that are on."""
    given, engine = parts.config.serving, parts.engine
    assert given is not None
    wanted = [("cuda_graphs", given.cuda_graphs), ("max_cudagraph_capture_size", given.max_cudagraph_capture_size)]
    for name, value in wanted:
        if value and engine is not None and engine.cuda_graphs is None:
            others = [each.name for each in engines(parts.config.profile_folders) if each.cuda_graphs is not None]
            found.error(
                ("serving", name), f"{engine.name} has no CUDA graphs, but {', '.join(others)} have; remove {name}"
            )
    if given.cuda_graphs is False and given.max_cudagraph_capture_size is not None:
        found.error(GRAPH_SIZE, "there are no graphs with cuda_graphs: false; remove one of them")


@rule("serving.stream_interval")
def chunks(parts: Parts, found: Findings) -> None:
    """Chunks of answers shorten steps of an engine only if its profile says what a chunk costs."""
    given, engine = parts.config.serving, parts.engine
    assert given is not None
    if given.stream_interval > 1 and engine is not None and engine.per_output is None:
        message = f"what a chunk of an answer costs {engine.name} is not known, so this changes no time"
        found.warn(Problem(message, "serving.stream_interval"))


@rule("serving.kv_precision")
def kv_cache_precision(parts: Parts, found: Findings) -> None:
    """The engine supports the precision of the KV cache; any GPU does, since attention computes in 16 bit."""
    settings, engine, spec, model = parts.config.serving, parts.engine, parts.spec, parts.model
    assert settings is not None
    if engine is None or spec is None or model is None:
        return
    half, known = half_of(spec.peak_flop_per_s), engine.kv_precisions
    if model.quantization is not None and model.quantization.problem and settings.precision is None:
        return  # recorded as an error already
    wanted = kv_precision(settings, model, half)
    if known is None or wanted in known:
        return
    near = next((name for name in ("fp8", "int8", half) if name in known), known[0])
    others = [each.name for each in engines(parts.config.profile_folders) if wanted in (each.kv_precisions or ())]
    message = f"{engine.name} keeps keys and values in {', '.join(known)}, not in {wanted}"
    groups: list[list[Remedy]] = [[{"serving.kv_precision": near}]]
    groups += [[{"serving.engine": each}] for each in others[:2]]
    found.error(("serving", "kv_precision"), message, suggestion=Suggestion(groups, "write {}"))
