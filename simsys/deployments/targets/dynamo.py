"""Dynamo on Kubernetes: a DynamoGraphDeployment of vLLM workers, in one pool or in pools for prefill and decode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from simsys.deployments.correspondence import Correspondence, Options
from simsys.deployments.deployment import Deployment
from simsys.deployments.pools import (
    DECODE,
    PREFILL,
    ROUTER,
    TENSOR,
    TRANSFER,
    WORKERS,
    Pools,
    argument_words,
    kubernetes_name,
    prefill_engine,
    replica_options,
)
from simsys.deployments.serving_parts import OUTSIDE, SECTIONS
from simsys.deployments.shell import options_of, yaml_file
from simsys.deployments.target import EmittedFile, Target
from simsys.deployments.targets import vllm

FILE = "dynamo.yaml"
STAGES = "pipeline-parallel-size"
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


TABLE: tuple[Correspondence, ...] = (
    Pools(MODES),
    *vllm.WORKER,
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
        prefill = prefill_engine(options, engine)
        decoding, prefilling = ({"disaggregation-mode": mode, **TRANSFER} for mode in ("decode", "prefill"))
        components.append(_worker("VllmDecodeWorker", "decode", options[DECODE], image, {**engine, **decoding}))
        components.append(_worker("VllmPrefillWorker", "prefill", options[PREFILL], image, {**prefill, **prefilling}))
    graph = {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": kubernetes_name(deployment.config.name)},
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
    container = {
        "name": "main",
        "image": image,
        "command": ["python3", "-m", "dynamo.vllm"],
        "args": argument_words(options),
        "envFrom": [{"secretRef": {"name": "hf-token-secret"}}],
        "resources": {"limits": {"nvidia.com/gpu": str(options.get(TENSOR, 1) * options.get(STAGES, 1))}},
    }
    return _component(name, kind, replicas, container)


def _parse(files: Mapping[str, str]) -> dict[str, Any]:
    components = {each["type"]: each for each in yaml.safe_load(files[FILE])["spec"]["components"]}
    frontend = components["frontend"]["podTemplate"]["spec"]["containers"][0]
    mode = {ROUTER: frontend["env"][0]["value"]} if "env" in frontend else {}
    if "worker" in components:
        return {**mode, WORKERS: components["worker"]["replicas"], **_arguments(components["worker"])}
    decode, prefill = _arguments(components["decode"]), _arguments(components["prefill"])
    replicas = replica_options(components["prefill"]["replicas"], components["decode"]["replicas"], prefill, decode)
    return {**mode, **replicas, **decode}


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
