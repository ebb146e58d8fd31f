"""Whether the options of serving fit the engine, the GPU and the model."""

from __future__ import annotations

from simsys.build.cluster import Cluster
from simsys.build.model import build_model
from simsys.build.resolved_serving import ResolvedServing, resolved_serving
from simsys.build.serving_precision import kv_precision
from simsys.check.engines import engines
from simsys.check.findings import Findings, Lever, Suggestion
from simsys.check.parallelism import split_problem
from simsys.config.engine_schema import EngineProfile
from simsys.config.experiment import ModelConfig, SimulationConfig
from simsys.config.serving import ServingConfig
from simsys.executors import costed_model
from simsys.model.model import Model
from simsys.model.precision import half_of
from simsys.platform.device_spec import DeviceSpec

STEP = ("max_num_seqs", "max_num_batched_tokens")
KV, GRAPH_SIZE = ("serving", "kv_precision"), ("serving", "max_cudagraph_capture_size")
DRAFTED, DRAFT = ("serving", "speculative"), ("serving", "speculative", "draft_model")
DRAFT_LAYERS = ("serving", "speculative", "draft_layers")


def check_defaults(
    config: SimulationConfig,
    engine: EngineProfile | None,
    cluster: Cluster | None,
    model: Model | None,
    found: Findings,
) -> ResolvedServing | None:
    """The settings of serving with what the engine sets besides; None if that cannot be known."""
    settings = config.serving
    if settings is None or engine is None or cluster is None or model is None:
        return None
    name = next((name for name in ("engine_release", *STEP) if getattr(settings, name) is not None), "engine")
    return found.attempt(("serving", name), lambda: resolved_serving(settings, engine, cluster, model))


def check_serving_options(
    config: SimulationConfig,
    spec: DeviceSpec | None,
    engine: EngineProfile | None,
    model: Model | None,
    settled: ServingConfig | None,
    found: Findings,
) -> None:
    """Book what is wrong; what is unknown (None) is not checked against."""
    if config.serving is None:
        return
    if engine is not None:
        _check_graphs(config, engine, found)
        if spec is not None and model is not None:
            _check_kv_precision(config, spec, engine, model, found)
    _check_waiting(config, found)
    _check_speculation(config, model, found)
    cached = config.serving.prefix_caching if settled is None else settled.prefix_caching
    if config.serving.router == "prefix_affinity" and cached is False:
        message = "prefix_affinity looks for cached prefixes, but there are none"
        suggestion = Suggestion([[{"serving.prefix_caching": True}]], "write {} beside it")
        found.error(("serving", "router"), message, suggestion=suggestion)


def _check_graphs(config: SimulationConfig, engine: EngineProfile, found: Findings) -> None:
    assert config.serving is not None
    given = config.serving
    wanted = [("cuda_graphs", given.cuda_graphs), ("max_cudagraph_capture_size", given.max_cudagraph_capture_size)]
    for name, value in wanted:
        if value and engine.cuda_graphs is None:
            others = [each.name for each in engines(config.profile_folders) if each.cuda_graphs is not None]
            found.error(
                ("serving", name), f"{engine.name} has no CUDA graphs, but {', '.join(others)} have; remove {name}"
            )
    if given.cuda_graphs is False and given.max_cudagraph_capture_size is not None:
        found.error(GRAPH_SIZE, "there are no graphs with cuda_graphs: false; remove one of them")


def _check_waiting(config: SimulationConfig, found: Findings) -> None:
    assert config.serving is not None
    given = config.serving
    if given.batch_wait_timeout_iters and given.scheduler_recv_interval > 1:
        message = "no engine polls and lets prompts wait; remove scheduler_recv_interval or batch_wait_timeout_iters"
        found.error(("serving", "batch_wait_timeout_iters"), message)
    if given.batch_wait_max_tokens_ratio is not None and not given.batch_wait_timeout_iters:
        message = "prompts do not wait; say how long with batch_wait_timeout_iters, e.g. 20"
        found.error(("serving", "batch_wait_max_tokens_ratio"), message)


def _check_kv_precision(
    config: SimulationConfig, spec: DeviceSpec, engine: EngineProfile, model: Model, found: Findings
) -> None:
    """The engine can keep keys and values like this; any GPU can, since they are computed on in 16 bit."""
    assert config.serving is not None
    half = half_of(spec.peak_flop_per_s)
    known = engine.kv_precisions
    settings = config.serving
    if model.quantization is not None and model.quantization.problem and settings.precision is None:
        return  # which is an error already
    wanted = kv_precision(settings, model, half)
    if known is None or wanted in known:
        return
    near = next((name for name in ("fp8", "int8", half) if name in known), known[0])
    others = [each.name for each in engines(config.profile_folders) if wanted in (each.kv_precisions or ())]
    message = f"{engine.name} keeps keys and values in {', '.join(known)}, not in {wanted}"
    groups: list[list[Lever]] = [[{"serving.kv_precision": near}]]
    groups += [[{"serving.engine": each}] for each in others[:2]]
    found.error(KV, message, suggestion=Suggestion(groups, "write {}"))


def _check_speculation(config: SimulationConfig, model: Model | None, found: Findings) -> None:
    assert config.serving is not None
    given, tensor = config.serving.speculative, config.parallelism.tp_degree
    if given is None:
        return
    if config.parallelism.pp_stages > 1:
        message = "speculative decoding beside pipeline parallelism is not available; remove one of them"
        found.error(DRAFTED, message, key=True)
    if config.serving.decode not in ("llm_decode", "speculative_decode"):
        found.error(DRAFTED, f"speculative decoding is a decode module itself; remove decode: {config.serving.decode}")
    if given.draft_layers is not None and model is not None and given.draft_layers >= model.num_layers:
        found.error(DRAFT_LAYERS, f"must be less than the {model.num_layers} layers of {model.name}")
    if given.draft_model is None:
        return
    name = given.draft_model
    lod = config.simulation.lod
    draft = found.attempt(DRAFT, lambda: costed_model(build_model(ModelConfig(name=name), config.folder), lod))
    if draft is None:
        return
    problem = split_problem(draft, tensor) if tensor > 1 else ""
    if not draft.kv_elements_per_token:
        problem = f"{draft.name} has no KV cache and cannot draft; use a small decoder such as GPT2-Small"
    elif model is not None and draft.parameters >= model.parameters:
        problem = f"{draft.name} is no smaller than {model.name}, for which it drafts; use a smaller model"
    if problem:
        found.error(DRAFT, problem)
