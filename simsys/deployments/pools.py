"""Replicas of vLLM on Kubernetes: one pool, or pools for prefill and decode, with a router before them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from simsys.config.experiment import SimulationConfig
from simsys.config.serving_options import DEFAULT_DECODE_ROUTER
from simsys.deployments.correspondence import Correspondence, InexpressibleError, Options, Settings
from simsys.deployments.deployment import Deployment

ROUTER, WORKERS, PREFILL, DECODE, PREFILL_TENSOR = (
    "router_mode",
    "workers",
    "prefill_workers",
    "decode_workers",
    "prefill_tensor_parallel_size",
)
TENSOR = "tensor-parallel-size"
TRANSFER = {"kv-transfer-config": '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'}
"""Options of vLLM with which KV caches are sent between pools."""
LONGEST_NAME = 40


@dataclass(frozen=True)
class Pools(Correspondence):
    """Replicas in one pool or in two, and the router before them.

    Args:
        modes: Routers of prefill (or all) and of decode replicas, by the mode of the tool's router.
    """

    modes: Mapping[str, tuple[str, str]]

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
            return {WORKERS: workers, **self._mode([router if workers > 1 else None, None])}
        prefill, decode = (settings[f"serving.disaggregated.{name}_replicas"] for name in ("prefill", "decode"))
        decode_router = settings.get("serving.disaggregated.decode_router", DEFAULT_DECODE_ROUTER)
        chosen = [router if prefill > 1 else None, decode_router if decode > 1 else None]
        tensor = settings.get("serving.disaggregated.prefill_tp_degree")
        more = {} if tensor is None else {PREFILL_TENSOR: tensor}
        return {PREFILL: prefill, DECODE: decode, **more, **self._mode(chosen)}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """The numbers of replicas and their routers."""
        router, decode_router = self.modes.get(options.get(ROUTER, ""), (None, None))
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

    def _mode(self, chosen: Sequence[str | None]) -> Options:
        """The mode of the router that makes these choices; no option if nothing is chosen."""
        if not any(chosen):
            return {}
        for mode, routers in self.modes.items():
            if all(wanted in (None, known) for wanted, known in zip(chosen, routers, strict=True)):
                return {ROUTER: mode}
        if chosen[1] is None:
            possible = " or ".join(router for router, _ in self.modes.values())
            raise InexpressibleError("serving.router", f"{chosen[0]} cannot be expressed; possible: {possible}")
        possible = " or ".join(f"{router} with decode_router {decode}" for router, decode in self.modes.values())
        given = " and ".join(name for name in chosen if name is not None)
        path = "serving.disaggregated.decode_router"
        raise InexpressibleError(path, f"{given} cannot be expressed; possible: {possible}")


def _check_workers_fit(settings: Settings, deployment: Deployment) -> None:
    degrees = [settings.get("parallelism.tp_degree", 1), settings.get("serving.disaggregated.prefill_tp_degree", 1)]
    gpus = max(degrees) * settings.get("parallelism.pp_stages", 1)
    if gpus > deployment.gpus_per_node:
        message = f"a worker of {gpus} GPUs cannot be expressed, as nodes have {deployment.gpus_per_node}"
        raise InexpressibleError("parallelism.tp_degree", message)


def prefill_engine(options: Options, engine: Options) -> Options:
    """The engine's options in the prefill pool.

    Args:
        options: All options.
        engine: The engine's options in the decode pool.
    """
    return {**engine, TENSOR: options[PREFILL_TENSOR]} if PREFILL_TENSOR in options else engine


def replica_options(prefill_replicas: int, decode_replicas: int, prefill: Options, decode: Options) -> Options:
    """The options of two pools that were read.

    Args:
        prefill_replicas: Replicas of the prefill pool.
        decode_replicas: Replicas of the decode pool.
        prefill: The engine's options in the prefill pool.
        decode: The engine's options in the decode pool.
    """
    own = prefill.get(TENSOR, 1)
    different = {PREFILL_TENSOR: own} if own != decode.get(TENSOR, 1) else {}
    return {PREFILL: prefill_replicas, DECODE: decode_replicas, **different}


def argument_words(options: Options) -> list[str]:
    """Arguments of a container: ``--name value``, or ``--name`` for True."""
    return [word for name, value in options.items() for word in _words(name, value)]


def _words(name: str, value: Any) -> list[str]:
    return [f"--{name}"] if value is True else [f"--{name}", str(value)]


def kubernetes_name(name: str) -> str:
    """A name as Kubernetes allows it: small letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")[:LONGEST_NAME]
