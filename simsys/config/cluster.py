"""The experiment file's description of GPUs and nodes, with the aliases of the first designs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self, TypeAlias

from pydantic import Field, PositiveInt, model_validator

from simsys.config.aliases import quantity, taken
from simsys.config.base import FrozenModel, invalid, invalid_at
from simsys.config.imperfections import DeviceException, Jitter, Slowdown
from simsys.units import BytesPerSecond, NonNegativeSeconds


def _count_of(group: object) -> Any:
    """The `count` of an entry of `nodes`, as written; None if this is not an entry."""
    if isinstance(group, dict):
        return group.get("count", 1)
    return getattr(group, "count", None)


ProfileGiven: TypeAlias = str | dict[str, Any]
"""A profile as its name, or as settings that may extend a profile by name."""


def _changed_gpu(base: Any, changes: dict[str, Any]) -> dict[str, Any]:
    """A GPU with the values of the aliases ``compute_tflops`` and ``memory_gb``."""
    own = {"extends": base} if isinstance(base, str) else base
    if not isinstance(own, dict):
        raise invalid("compute_tflops and memory_gb change a named GPU; add gpu_model, e.g. gpu_model: H100")
    twice = next((key for key in changes if key in own), None)
    if twice is not None:
        alias = {"peak": "compute_tflops", "memory": "memory_gb"}[twice]
        raise invalid(f"{alias} is another name of gpu.{twice}; give one of them")
    return {**own, **changes}


class NodeGroup(FrozenModel):
    """Equal nodes of a cluster that has several kinds: their profile, by name or inline, and how many."""

    profile: ProfileGiven = Field(description="Node profile, by name or inline")
    count: PositiveInt = Field(default=1, description="Number of these nodes")


class NicConfig(FrozenModel):
    """The network cards (NICs) of each node; all are alike.

    `bandwidth` is the rate of each NIC in one direction. It defaults to the node profile, or without one to a port of
    the fabric. `count` is the number of NICs per node. It defaults to the node profile, or to one per GPU. `latency`
    is the time from GPU memory to the wire. It defaults to the node profile, or to the fabric.
    """

    other_names: ClassVar[Mapping[str, str]] = {
        "nics_per_node": "count",
        "num_nics": "count",
        "speed": "bandwidth",
        "network_bandwidth": "bandwidth",
    }

    bandwidth: BytesPerSecond | None = Field(
        default=None,
        description="Bandwidth of each NIC in one direction; by default from the node profile, or of a fabric port",
    )
    count: Annotated[int, Field(strict=True, ge=1, le=1024)] | None = Field(
        default=None, description="NICs of each node; by default from the node profile, or one per GPU"
    )
    latency: NonNegativeSeconds | None = Field(
        default=None,
        description="Time from GPU memory to the wire; by default from the node profile, or from the fabric",
    )

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.bandwidth is None and self.count is None and self.latency is None:
            raise invalid("give bandwidth, count or latency, e.g. nic: {bandwidth: 400 Gb/s, count: 8}")
        return self


class HardwareConfig(FrozenModel):
    """The cluster: a node profile, or a GPU and the number of GPUs per node.

    A profile (`profile`, `gpu`, `fabric`) is a name, or a mapping of settings in which ``extends`` names the profile
    that they change. Together with a node profile, settings of `gpu` without ``extends`` change the GPU of the node.
    Names are looked up first in the folder of the experiment or in `profile_folder`. Profiles lie there in the folders
    ``gpus``, ``nodes``, ``fabrics`` and ``engines``, directly or below ``hardware_profiles``.

    `nodes` describes a cluster with several kinds of nodes, in the order of the node numbers. It replaces `profile`,
    `gpu` and `num_nodes`. All nodes have the same number of GPUs.

    `nic` describes the network cards of each node, `fabric` the network between nodes. A NIC is at most as fast as a
    port of the named fabric. `network_bandwidth` is an older form: the bandwidth of a whole node, which
    `nics_per_node` network cards share (one card if left out).

    `exceptions` are GPUs that differ from the others, `slowdowns` are GPUs that are slow for some time, and `jitter`
    lets all computations vary.

    Aliases: ``gpu_model`` for ``gpu``, ``num_gpus_per_node`` for ``gpus_per_node``, ``compute_tflops`` (peak in
    TFLOP/s at 16 bit), ``memory_gb``, ``network_bandwidth_gbps`` (GB/s) for ``network_bandwidth``.
    """

    other_names: ClassVar[Mapping[str, str]] = {
        "price": "gpu.price",
        "memory": "gpu.memory",
        "peak": "gpu.peak",
        "num_gpus": "gpus_per_node",
        "gpus": "gpus_per_node",
        "gpu_type": "gpu",
        "instance_type": "profile",
        "node": "profile",
    }

    profile: ProfileGiven | None = Field(
        default=None, description="Node profile (simsys list nodes), by name or inline"
    )
    gpu: ProfileGiven | None = Field(
        default=None,
        description="GPU profile (simsys list gpus), by name or inline; with a node profile, changes to its GPU",
    )
    num_nodes: PositiveInt = Field(default=1, description="Number of nodes")
    nodes: Annotated[list[NodeGroup], Field(min_length=1)] | None = Field(
        default=None,
        description="Several kinds of nodes, in the order of their numbers, in place of profile and num_nodes",
    )
    gpus_per_node: PositiveInt | None = Field(
        default=None, description="GPUs of each node; by default from the node profile, or one"
    )
    fabric: ProfileGiven | None = Field(
        default=None, description="Fabric profile (simsys list fabrics): the network between nodes"
    )
    profile_folder: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="Folder with profiles of your own, relative to the experiment file"
    )
    nic: NicConfig | None = Field(default=None, description="Network cards of each node")
    network_bandwidth: BytesPerSecond | None = Field(
        default=None, description="Older form of nic: the bandwidth of all NICs of a node together"
    )
    nics_per_node: Annotated[int, Field(strict=True, ge=1, le=1024)] | None = Field(
        default=None, description="NICs that share network_bandwidth"
    )
    exceptions: list[DeviceException] = Field(
        default_factory=list, description="GPUs that differ from the rest during the whole run"
    )
    slowdowns: list[Slowdown] = Field(default_factory=list, description="GPUs that are slow for some time")
    jitter: Jitter | None = Field(default=None, description="Random variation of all computations")

    @model_validator(mode="before")
    @classmethod
    def _aliases(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        data = dict(data)
        for alias, key in (("gpu_model", "gpu"), ("num_gpus_per_node", "gpus_per_node")):
            if alias in data:
                data[key] = taken(data, alias, key)
        if "network_bandwidth_gbps" in data:
            value = taken(data, "network_bandwidth_gbps", "network_bandwidth")
            data["network_bandwidth"] = quantity(value, "GB/s")
        changes: dict[str, Any] = {}
        if "compute_tflops" in data:
            peak = {"dense": quantity(data.pop("compute_tflops"), "TFLOP/s"), "sparse": None}
            changes["peak"] = {"fp16": peak, "bf16": peak}
        if "memory_gb" in data:
            changes["memory"] = quantity(data.pop("memory_gb"), "GB")
        if changes:
            data["gpu"] = _changed_gpu(data.get("gpu"), changes)
        return data

    @model_validator(mode="before")
    @classmethod
    def _count_nodes(cls, data: Any) -> Any:
        """`num_nodes` is the sum over the kinds."""
        if not isinstance(data, dict) or not isinstance(data.get("nodes"), list | tuple):
            return data
        counts = [_count_of(each) for each in data["nodes"]]
        if not all(isinstance(count, int) for count in counts):
            return data  # the schema reports the error
        if data.get("num_nodes") not in (None, sum(counts)):
            raise invalid_at(("num_nodes",), f"nodes are {sum(counts)} in all; leave num_nodes out", data["num_nodes"])
        return {**data, "num_nodes": sum(counts)}

    @model_validator(mode="after")
    def _one_description_of_nics(self) -> Self:
        older = next((key for key in ("network_bandwidth", "nics_per_node") if getattr(self, key) is not None), None)
        if self.nic is not None and older is not None:
            message = f"nic and {older} both describe the network cards; leave {older} out"
            raise invalid_at((older,), message, getattr(self, older))
        if self.nics_per_node is not None and self.network_bandwidth is None:
            instead = f"write nic: {{count: {self.nics_per_node}}}"
            message = f"nics_per_node share network_bandwidth, which is missing; {instead}"
            raise invalid_at(("nics_per_node",), message, self.nics_per_node)
        return self

    @model_validator(mode="after")
    def _one_description(self) -> Self:
        if self.nodes is not None:
            other = next((key for key in ("profile", "gpu") if getattr(self, key) is not None), None)
            if other is not None:
                message = "is for a cluster of one kind of nodes; leave it out, as each of nodes has a profile"
                raise invalid_at((other,), message, getattr(self, other))
            return self
        if self.profile is None and self.gpu is None:
            raise invalid("name a node profile (profile: dgx-h100) or a GPU (gpu: H100-SXM)")
        return self
