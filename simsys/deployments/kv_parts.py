"""Correspondences of tiers of the KV cache: a single tier of CPU memory, which vLLM and SGLang have without stores.

Bandwidths and latencies are those of the machine, which no option states.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from simsys.config.experiment import SimulationConfig
from simsys.config.kv_tiers import KVTierConfig
from simsys.deployments.correspondence import Correspondence, InexpressibleError, Options, Settings
from simsys.deployments.deployment import Deployment
from simsys.errors import UsageError

TIERS = "serving.kv_tiers"
LOAD, CHUNK, DECODES = (f"serving.kv_offload.{name}" for name in ("load", "chunk_tokens", "save_decode_cache"))
GIGABYTE = 1e9


def cpu_tier(settings: Settings) -> KVTierConfig | None:
    """The tier of CPU memory of each replica; None without tiers.

    Raises:
        InexpressibleError: There are other tiers.
    """
    if TIERS not in settings:
        return None
    tier, *more = settings[TIERS]
    if more or tier.kind != "cpu" or tier.sharing != "replica":
        raise InexpressibleError(TIERS, "can be one tier of kind cpu, of each replica; others need paths of stores")
    return KVTierConfig.model_validate(tier.model_dump(mode="json"))


def read_tier(like: SimulationConfig, **stated: Any) -> dict[str, Any]:
    """The tier with what options state, and the bandwidth of a scenario.

    Raises:
        UsageError: The scenario has no such tier.
    """
    tiers = like.serving.kv_tiers if like.serving is not None else None
    if not tiers:
        raise UsageError("no option states the bandwidth of CPU memory; give a scenario with serving.kv_tiers")
    return {TIERS: [{**tiers[0].model_dump(mode="json", exclude_unset=True), **stated}]}


@dataclass(frozen=True)
class OffloadingConnector(Correspondence):
    """vLLM's offloading connector (kv_offloading_usage.md of its documentation), one JSON object."""

    paths: ClassVar[tuple[str, ...]] = (TIERS, CHUNK, DECODES)
    options: ClassVar[tuple[str, ...]] = ("kv-transfer-config",)

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """The JSON object."""
        tier = cpu_tier(settings)
        if tier is None:
            return {}
        if tier.write_policy != "write_through":
            raise InexpressibleError(TIERS, "is written when blocks are complete; use write_policy: write_through")
        extra: dict[str, Any] = {"cpu_bytes_to_use": int(tier.capacity)}
        if CHUNK in settings:
            extra["block_size"] = settings[CHUNK]
        if DECODES in settings:
            extra["offload_prompt_only"] = False
        found = {"kv_connector": "OffloadingConnector", "kv_role": "kv_both", "kv_connector_extra_config": extra}
        return {self.options[0]: json.dumps(found)}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """Capacity and chunks."""
        if self.options[0] not in options:
            return {}
        given = json.loads(options[self.options[0]])
        extra = given["kv_connector_extra_config"]
        found = read_tier(like, capacity=f"{extra['cpu_bytes_to_use']} B")
        if "block_size" in extra:
            found[CHUNK] = extra["block_size"]
        if extra.get("offload_prompt_only") is False:
            found[DECODES] = True
        return found


@dataclass(frozen=True)
class HiCache(Correspondence):
    """SGLang's HiCache (hicache_design.md of its documentation) without a storage backend.

    It loads layer by layer, and writes what requests have generated, too. Its size is that of each rank.
    """

    paths: ClassVar[tuple[str, ...]] = (TIERS, LOAD, DECODES)
    options: ClassVar[tuple[str, ...]] = ("enable-hierarchical-cache", "hicache-size", "hicache-write-policy")

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """Size and policy."""
        tier = cpu_tier(settings)
        if tier is None:
            return {}
        if settings.get(LOAD) != "layerwise":
            raise InexpressibleError(TIERS, "is loaded layer by layer; use kv_offload.load: layerwise")
        if DECODES not in settings:
            raise InexpressibleError(TIERS, "holds what requests generate; use kv_offload.save_decode_cache: true")
        size = tier.capacity / GIGABYTE / settings.get("parallelism.tp_degree", 1)
        if size != int(size):
            raise InexpressibleError(TIERS, f"has a number of GB for each rank, not {size:g}; use a whole number")
        return dict(zip(self.options, (True, int(size), tier.write_policy), strict=True))

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """Capacity and policy."""
        if "enable-hierarchical-cache" not in options:
            return {}
        size = options["hicache-size"] * int(options.get("tp-size", 1))
        tier = read_tier(like, capacity=f"{size} GB", write_policy=options["hicache-write-policy"])
        return {**tier, LOAD: "layerwise", DECODES: True}
