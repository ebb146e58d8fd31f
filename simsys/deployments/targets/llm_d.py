"""llm-d on Kubernetes: values of the Helm chart llm-d-modelservice, in one pool or in pools for prefill and decode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

import yaml

from simsys.deployments.correspondence import Correspondence, InexpressibleError, Options, Settings
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
from simsys.deployments.serving_parts import OUTSIDE, SECTIONS, Checkpoint
from simsys.deployments.shell import options_of, yaml_file
from simsys.deployments.target import EmittedFile, Target
from simsys.deployments.targets import vllm

FILE = "values.yaml"
MODEL, HUB = "model", "hf://"
IMAGE = "ghcr.io/llm-d/llm-d-cuda:v0.8.0"
"""vLLM 0.23."""
PREFIX = "prefix"
MODES = {PREFIX: ("prefix_affinity", "least_kv")}
"""What the endpoint picker of llm-d does by default: it scores cached prefixes, queues and KV caches in use."""
POD_ADDRESS = {"name": "VLLM_NIXL_SIDE_CHANNEL_HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
BYTES_PER_PARAMETER, SPARE = 2.0, 1.2
GIB = 2**30


@dataclass(frozen=True)
class HubCheckpoint(Checkpoint):
    """Weights from the Hugging Face Hub."""

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """The id of the weights."""
        if deployment.checkpoint.startswith(("/", ".")):
            path = "model.huggingface" if "model.huggingface" in settings else "model.name"
            message = f"the folder {deployment.checkpoint} cannot be expressed"
            raise InexpressibleError(path, f"{message}; give --checkpoint with a Hugging Face id")
        return super().write(settings, deployment)


_ELSEWHERE = ("model.name", "parallelism.pp_stages")
TABLE: tuple[Correspondence, ...] = (
    Pools(MODES),
    HubCheckpoint(MODEL),
    *(each for each in vllm.WORKER if not set(_ELSEWHERE).intersection(each.paths)),
)


def _render(options: Options, deployment: Deployment) -> list[EmittedFile]:
    name, checkpoint = kubernetes_name(deployment.config.name), options[MODEL]
    engine = {name: value for name, value in options.items() if name not in (*Pools.options, MODEL)}
    one_pool = WORKERS in options
    transfer = {} if one_pool else TRANSFER
    values: dict[str, Any] = {
        "multinode": False,
        "modelArtifacts": {
            "name": checkpoint,
            "uri": f"{HUB}{checkpoint}",
            "size": f"{ceil(deployment.model.parameters * BYTES_PER_PARAMETER * SPARE / GIB)}Gi",
            "authSecretName": "llm-d-hf-token",
            "labels": {"llm-d.ai/inferenceServing": "true", "llm-d.ai/model": name},
        },
        "routing": {"servicePort": 8000, "proxy": {"enabled": not one_pool}},
        "accelerator": {"type": "nvidia"},
        "decode": _pool(options[WORKERS if one_pool else DECODE], engine, transfer),
        "prefill": {"create": False},
    }
    if not one_pool:
        values["prefill"] = _pool(options[PREFILL], prefill_engine(options, engine), transfer)
    about = [
        f"llm-d-modelservice {deployment.release}, scenario {deployment.config.name}; written by simsys.",
        f"helm install {name} llm-d-modelservice/llm-d-modelservice --version '~{deployment.release}' -f {FILE}",
        "The secret llm-d-hf-token gives access to the weights. Requests go through an InferencePool of pods with the",
        "labels below, with the default scorers of the endpoint picker.",
    ]
    return [EmittedFile(FILE, yaml_file(values, about))]


def _pool(replicas: int, engine: Options, transfer: Options) -> dict[str, Any]:
    """A pool of replicas; the chart makes an option of the tensor-parallel degree."""
    container = {
        "name": "vllm",
        "image": IMAGE,
        "modelCommand": "vllmServe",
        "args": argument_words({name: value for name, value in engine.items() if name != TENSOR} | transfer),
        "mountModelVolume": True,
        **({"env": [POD_ADDRESS]} if transfer else {}),
    }
    parallelism = {"tensor": engine.get(TENSOR, 1), "data": 1}
    return {"create": True, "replicas": replicas, "parallelism": parallelism, "containers": [container]}


def _parse(files: Mapping[str, str]) -> dict[str, Any]:
    values = yaml.safe_load(files[FILE])
    decode, prefill = values["decode"], values["prefill"]
    pools = {WORKERS: decode["replicas"]}
    if prefill["create"]:
        pools = replica_options(prefill["replicas"], decode["replicas"], _engine(prefill), _engine(decode))
    chosen = any(pools.get(name, 1) > 1 for name in (WORKERS, PREFILL, DECODE))
    router = {ROUTER: PREFIX} if chosen else {}
    return {MODEL: values["modelArtifacts"]["uri"].removeprefix(HUB), **pools, **router, **_engine(decode)}


def _engine(pool: Mapping[str, Any]) -> Options:
    """The engine's options of a pool."""
    given, tensor = options_of(pool["containers"][0]["args"]), pool["parallelism"]["tensor"]
    found = {name: value for name, value in given.items() if name not in TRANSFER}
    return {**({TENSOR: tensor} if tensor > 1 else {}), **found}


TARGET = Target(
    name="llm-d",
    tool="llm-d-modelservice",
    kind="serving",
    releases=("0.4",),
    sources=(
        "llm-d-incubation/llm-d-modelservice: charts/llm-d-modelservice/values.yaml, templates/_helpers.tpl",
        "llm-d/llm-d: guides/pd-disaggregation/ms-pd/values.yaml",
        "https://github.com/llm-d/llm-d/releases/tag/v0.8.1",
        *vllm.TARGET.sources,
    ),
    table=TABLE,
    render=_render,
    parse=_parse,
    sections=SECTIONS,
    outside=OUTSIDE,
    engine_releases=("0.22", "0.23"),
    reasons={
        **vllm.TARGET.reasons,
        "serving.autoscaling": "cannot be expressed, as llm-d scales by other rules",
        "parallelism.pp_stages": "cannot be expressed, as the chart counts GPUs of tensor-parallel ranks only",
    },
)
