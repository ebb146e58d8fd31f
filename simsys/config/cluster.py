"""The experiment file's description of the cluster: hardware and network, with the aliases of the first designs."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import PositiveInt, model_validator

from simsys.config.base import FrozenModel, invalid
from simsys.units import BytesPerSecond, NonNegativeSeconds

Contention = Literal["fifo", "fair"]
Switching = Literal["cut_through", "store_and_forward"]
TopologyType = Literal["switch", "full_mesh", "ring", "tree", "torus_2d"]


def _take(data: dict[str, Any], alias: str, key: str) -> Any:
    """Remove and return an alias' value; refuse it beside the key that it stands for."""
    value = data.pop(alias)
    if data.get(key) is not None:
        raise invalid(f"{alias} is another name of {key}; give one of them")
    return value


def _quantity(value: Any, unit: str) -> str:
    """A bare number of an alias with the unit that the alias implies."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise invalid(f"a number is expected here (in {unit}), not {value!r}")
    return f"{value} {unit}"


class HardwareConfig(FrozenModel):
    """The cluster: a node profile, or a GPU and how many of them a node has.

    Aliases: ``gpu_model`` for ``gpu``, ``num_gpus_per_node`` for ``gpus_per_node``, ``compute_tflops`` (peak in
    TFLOP/s at 16 bit), ``memory_gb``, ``network_bandwidth_gbps`` (GB/s) for ``network_bandwidth``.
    """

    profile: str | None = None
    gpu: str | dict[str, Any] | None = None
    num_nodes: PositiveInt = 1
    gpus_per_node: PositiveInt | None = None
    fabric: str | None = None
    network_bandwidth: BytesPerSecond | None = None

    @model_validator(mode="before")
    @classmethod
    def _aliases(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        data = dict(data)
        for alias, key in (("gpu_model", "gpu"), ("num_gpus_per_node", "gpus_per_node")):
            if alias in data:
                data[key] = _take(data, alias, key)
        if "network_bandwidth_gbps" in data:
            value = _take(data, "network_bandwidth_gbps", "network_bandwidth")
            data["network_bandwidth"] = _quantity(value, "GB/s")
        changes: dict[str, Any] = {}
        if "compute_tflops" in data:
            peak = {"dense": _quantity(data.pop("compute_tflops"), "TFLOP/s"), "sparse": None}
            changes["peak"] = {"fp16": peak, "bf16": peak}
        if "memory_gb" in data:
            changes["memory"] = _quantity(data.pop("memory_gb"), "GB")
        if changes:
            base = data.get("gpu")
            if not isinstance(base, str):
                raise invalid("compute_tflops and memory_gb change a named GPU; add gpu_model, e.g. gpu_model: H100")
            data["gpu"] = {"extends": base, **changes}
        return data

    @model_validator(mode="after")
    def _one_description(self) -> Self:
        if self.profile is None and self.gpu is None:
            raise invalid("name a node profile (profile: dgx-h100) or a GPU (gpu: H100-SXM)")
        return self


class NetworkConfig(FrozenModel):
    """How the nodes (or, in nodes of one GPU, the GPUs) are joined, and how transfers share links.

    Alias: ``base_latency_us``.
    """

    topology_type: TopologyType = "switch"
    base_latency: NonNegativeSeconds | None = None
    link_bandwidth: BytesPerSecond | None = None
    contention: Contention = "fifo"
    switching: Switching = "cut_through"

    @model_validator(mode="before")
    @classmethod
    def _aliases(cls, data: Any) -> Any:
        if isinstance(data, dict) and "base_latency_us" in data:
            data = dict(data)
            data["base_latency"] = _quantity(_take(data, "base_latency_us", "base_latency"), "us")
        return data

    @model_validator(mode="after")
    def _switching_of_the_model(self) -> Self:
        if self.contention == "fair" and self.switching != "cut_through":
            raise invalid(
                "contention: fair knows no queues of transfers; for switching: store_and_forward, set contention: fifo"
            )
        return self
