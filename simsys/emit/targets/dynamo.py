"""Dynamo on Kubernetes: a DynamoGraphDeployment of vLLM workers, in one pool or in pools for prefill and decode."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import yaml

from simsys.config.experiment import SimulationConfig
from simsys.emit.correspondence import Correspondence, InexpressibleError, Options, Settings
from simsys.emit.deployment import Deployment
from simsys.emit.serving_parts import OUTSIDE, SECTIONS, OneNode, Replicas
from simsys.emit.shell import options_of, yaml_file
from simsys.emit.target import EmittedFile, Target
from simsys.emit.targets import vllm

FILE = "dynamo.yaml"
ROUTER, WORKERS, PREFILL, DECODE, PREFILL_TENSOR = (
    "router_mode",
    "workers",
    "prefill_workers",
    "decode_workers",
    "prefill_tensor_parallel_size",
)
TENSOR, STAGES = "tensor-parallel-size", "pipeline-parallel-size"
MODES = {
    "round-robin": ("round_robin", "round_robin"),
    "random": ("random", "random"),
    "kv": ("prefix_affinity", "least_kv"),
}
"""Routers of prefill (or all) and of decode replicas, by the mode of Dynamo's router."""
EVENTS = {
    "kv-events-config": '{"publisher":"zmq","topic":"kv-events","endpoint":"tcp://*:20080","enable_kv_cache_events":true}'
}
"""Cache events that workers publish for the mode kv of the router."""
TRANSFER = {"kv-transfer-config": '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'}


@dataclass(frozen=True)
class Pools(Correspondence):
    """Replicas in one pool or in two, and the router before them."""

    paths: ClassVar[tuple[str, ...]] = (
        *("parallelism.dp_degree", "serving.router"),
        *("serving.disaggregated.prefill_replicas", "serving.disaggregated.decode_replicas"),
        *("serving.disaggregated.prefill_tp_degree", "serving.disaggregated.decode_router"),
    )
    options: ClassVar[tuple[str, ...]] = (ROUTER, WORKERS, PREFILL, DECODE, PREFILL_TENSOR)

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """The numbers of workers, and the router's mode where it chooses among several."""
        _check_workers_fit(settings, deployment)
        router = settings.get("serving.router", "round_robin")
        if "serving.disaggregated.prefill_replicas" not in settings:
            workers = settings.get("parallelism.dp_degree", 1)
            return {WORKERS: workers, **_mode([router, None] if workers > 1 else [None, None], settings)}
        prefill, decode = (settings[f"serving.disaggregated.{name}_replicas"] for name in ("prefill", "decode"))
        decode_router = settings.get("serving.disaggregated.decode_router", "least_kv")
        chosen = [router if prefill > 1 else None, decode_router if decode > 1 else None]
        tensor = settings.get("serving.disaggregated.prefill_tp_degree")
        more = {} if tensor is None else {PREFILL_TENSOR: tensor}
        return {PREFILL: prefill, DECODE: decode, **more, **_mode(chosen, settings)}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """The numbers of replicas and their routers."""
        router, decode_router = MODES.get(options.get(ROUTER, ""), (None, None))
        if WORKERS in options:
            chosen = {} if router is None else {"serving.router": router}
            return {"parallelism.dp_degree": options[WORKERS], **chosen}
        found: dict[str, Any] = {
            "serving.disaggregated.prefill_replicas": options[PREFILL],
            "serving.disaggregated.decode_replicas": options[DECODE],
        }
        if router is not None and options[PREFILL] > 1:
            found["serving.router"] = router
        if decode_router is not None and options[DECODE] > 1:
            found["serving.disaggregated.decode_router"] = decode_router
        if PREFILL_TENSOR in options:
            found["serving.disaggregated.prefill_tp_degree"] = options[PREFILL_TENSOR]
        return found


def _mode(chosen: list[str | None], settings: Settings) -> Options:
    """The mode of the router that makes these choices; no option if nothing is chosen."""
    if chosen == [None, None]:
        return {}
    for mode, routers in MODES.items():
        if all(wanted in (None, known) for wanted, known in zip(chosen, routers, strict=True)):
            return {ROUTER: mode}
    path = "serving.router" if chosen[1] is None else "serving.disaggregated.decode_router"
    pairs = "round_robin (both), random (both), or prefix_affinity with decode_router least_kv"
    given = " and ".join(name for name in chosen if name is not None)
    raise InexpressibleError(path, f"{given} cannot be expressed; possible: {pairs}")


def _check_workers_fit(settings: Settings, deployment: Deployment) -> None:
    degrees = [settings.get("parallelism.tp_degree", 1), settings.get("serving.disaggregated.prefill_tp_degree", 1)]
    gpus = max(degrees) * settings.get("parallelism.pp_stages", 1)
    if gpus > deployment.gpus_per_node:
        message = f"a worker of {gpus} GPUs cannot be expressed, as nodes have {deployment.gpus_per_node}"
        raise InexpressibleError("parallelism.tp_degree", message)


TABLE: tuple[Correspondence, ...] = (
    Pools(),
    *(each for each in vllm.TABLE if not isinstance(each, OneNode | Replicas)),
)


def _render(options: Options, deployment: Deployment) -> list[EmittedFile]:
    engine = {name: value for name, value in options.items() if name not in Pools.options}
    image = f"nvcr.io/nvidia/ai-dynamo/vllm-runtime:{deployment.release}.0"
    frontend: dict[str, Any] = {"name": "main", "image": image}
    if options.get(ROUTER) == "kv":
        engine |= EVENTS
    if ROUTER in options:
        frontend["env"] = [{"name": "DYN_ROUTER_MODE", "value": options[ROUTER]}]
    components = [_component("Frontend", "frontend", 1, frontend)]
    if WORKERS in options:
        components.append(_worker("VllmWorker", "worker", options[WORKERS], image, engine))
    else:
        prefill = {**engine, **({TENSOR: options[PREFILL_TENSOR]} if PREFILL_TENSOR in options else {})}
        decoding, prefilling = ({"disaggregation-mode": mode, **TRANSFER} for mode in ("decode", "prefill"))
        components.append(_worker("VllmDecodeWorker", "decode", options[DECODE], image, {**engine, **decoding}))
        components.append(_worker("VllmPrefillWorker", "prefill", options[PREFILL], image, {**prefill, **prefilling}))
    graph = {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": re.sub(r"[^a-z0-9-]+", "-", deployment.config.name.lower()).strip("-")[:40]},
        "spec": {"components": components},
    }
    about = [
        f"Dynamo {deployment.release}, scenario {deployment.config.name}; written by simsys.",
        "The secret hf-token-secret gives access to the weights.",
    ]
    return [EmittedFile(FILE, yaml_file(graph, about))]


def _component(name: str, kind: str, replicas: int, container: dict[str, Any]) -> dict[str, Any]:
    pod = {"spec": {"containers": [container]}}
    return {"name": name, "type": kind, "replicas": replicas, "podTemplate": pod}


def _worker(name: str, kind: str, replicas: int, image: str, options: Options) -> dict[str, Any]:
    args = [word for key, value in options.items() for word in _words(key, value)]
    container = {
        "name": "main",
        "image": image,
        "command": ["python3", "-m", "dynamo.vllm"],
        "args": args,
        "envFrom": [{"secretRef": {"name": "hf-token-secret"}}],
        "resources": {"limits": {"nvidia.com/gpu": str(options.get(TENSOR, 1) * options.get(STAGES, 1))}},
    }
    return _component(name, kind, replicas, container)


def _words(name: str, value: Any) -> list[str]:
    return [f"--{name}"] if value is True else [f"--{name}", str(value)]


def _parse(files: Mapping[str, str]) -> dict[str, Any]:
    components = {each["type"]: each for each in yaml.safe_load(files[FILE])["spec"]["components"]}
    frontend = components["frontend"]["podTemplate"]["spec"]["containers"][0]
    mode = {ROUTER: frontend["env"][0]["value"]} if "env" in frontend else {}
    if "worker" in components:
        return {**mode, WORKERS: components["worker"]["replicas"], **_arguments(components["worker"])}
    decode, prefill = _arguments(components["decode"]), _arguments(components["prefill"])
    own = prefill.get(TENSOR, 1)
    different = {PREFILL_TENSOR: own} if own != decode.get(TENSOR, 1) else {}
    replicas = {PREFILL: components["prefill"]["replicas"], DECODE: components["decode"]["replicas"]}
    return {**mode, **replicas, **different, **decode}


def _arguments(component: dict[str, Any]) -> dict[str, Any]:
    """The engine's options of a worker."""
    found = options_of(component["podTemplate"]["spec"]["containers"][0]["args"])
    return {name: value for name, value in found.items() if name not in ("disaggregation-mode", *TRANSFER, *EVENTS)}


TARGET = Target(
    name="dynamo",
    tool="Dynamo",
    kind="serving",
    releases=("1.3",),
    sources=(
        "ai-dynamo/dynamo: examples/backends/vllm/deploy/v1beta1/disagg.yaml",
        "https://docs.nvidia.com/dynamo/v1.3.0/resources/release-artifacts.md",
        "https://docs.nvidia.com/dynamo/v1.2.0/user-guides/kv-cache-aware-routing",
        *vllm.TARGET.sources,
    ),
    table=TABLE,
    render=_render,
    parse=_parse,
    sections=SECTIONS,
    outside=OUTSIDE,
    engine_releases=("0.22", "0.23"),
    reasons={
        "serving.preemption": vllm.TARGET.reasons["serving.preemption"],
        "serving.autoscaling": "cannot be expressed, as the planner of Dynamo scales by other rules",
    },
)
