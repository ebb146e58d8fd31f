"""The experiment file's description of the cluster: hardware and network, with the aliases of the first designs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import Field, PositiveInt, model_validator

from simsys.config.aliases import changed_gpu, quantity, take
from simsys.config.base import FrozenModel, invalid, invalid_at
from simsys.config.edges import Edges
from simsys.config.imperfections import Degradation, DeviceException, Jitter, Slowdown
from simsys.units import BytesPerSecond, NonNegativeSeconds

Contention = Literal["fifo", "fair"]
Switching = Literal["cut_through", "store_and_forward"]
TopologyType = Literal[
    "switch",
    "full_mesh",
    "ring",
    "tree",
    "torus_2d",
    "torus_3d",
    "fat_tree",
    "rail_optimized",
    "dragonfly",
    "custom",
]

Ports = Annotated[int, Field(strict=True, ge=1, le=1024)]
"""Of a switch, or switches that each of them is joined with; far more than there are."""

_CLOS = ("fat_tree", "rail_optimized")
SETTINGS_OF: dict[str, tuple[str, ...]] = {
    "dims": ("torus_2d", "torus_3d"),
    "leaf_size": _CLOS,
    "oversubscription": _CLOS,
    "radix": _CLOS,
    "pxn": ("rail_optimized",),
    "nodes_per_router": ("dragonfly",),
    "routers_per_group": ("dragonfly",),
    "global_links_per_router": ("dragonfly",),
    "edges": ("custom",),
    "edges_file": ("custom",),
}
"""Settings that only some topologies have."""


ProfileGiven: TypeAlias = str | dict[str, Any]
"""A profile's name, or its settings, which may extend a profile by name."""


def _count_of(group: object) -> Any:
    """How many nodes an entry of `nodes` stands for, as written; None if it is no entry."""
    if isinstance(group, dict):
        return group.get("count", 1)
    return getattr(group, "count", None)


class NodeGroup(FrozenModel):
    """Equal nodes of a cluster that has several kinds: their profile, by name or inline, and how many."""

    profile: ProfileGiven
    count: PositiveInt = 1


class NicConfig(FrozenModel):
    """The network cards (NICs) of each node; all are alike.

    `bandwidth` is that of each NIC in one direction: by default that of the node profile, or without one that of a
    port of the fabric. `count` is their number per node: by default that of the node profile, or one per GPU.
    `latency` is the time from GPU memory to the wire: by default that of the node profile, or of the fabric.
    """

    other_names: ClassVar[Mapping[str, str]] = {
        "nics_per_node": "count",
        "num_nics": "count",
        "speed": "bandwidth",
        "network_bandwidth": "bandwidth",
    }

    bandwidth: BytesPerSecond | None = None
    count: Annotated[int, Field(strict=True, ge=1, le=1024)] | None = None
    latency: NonNegativeSeconds | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.bandwidth is None and self.count is None and self.latency is None:
            raise invalid("give bandwidth, count or latency, e.g. nic: {bandwidth: 400 Gb/s, count: 8}")
        return self


class HardwareConfig(FrozenModel):
    """The cluster: a node profile, or a GPU and how many of them a node has.

    A profile (`profile`, `gpu`, `fabric`) is a name, or settings of which ``extends`` names the profile that they
    change. Beside a node profile, settings of `gpu` without ``extends`` change the GPU of the node. Names are looked
    up beside the experiment first, or in `profile_folder`: in the folders ``gpus``, ``nodes``, ``fabrics`` and
    ``engines`` there, or below ``hardware_profiles`` there.

    Of a cluster with several kinds of nodes, `nodes` are these, in the order of their numbers, in place of `profile`,
    `gpu` and `num_nodes`; all have the same number of GPUs.

    `nic` describes the network cards of each node, `fabric` the network that joins them; a NIC is no faster than a
    port of a fabric that is named. `network_bandwidth` is an older form: the bandwidth of a whole node, which
    `nics_per_node` network cards share (one card if left out).

    `exceptions` are GPUs that differ from the others, `slowdowns` are GPUs that are slow for some time, and `jitter`
    lets all computations vary.

    Aliases: ``gpu_model`` for ``gpu``, ``num_gpus_per_node`` for ``gpus_per_node``, ``compute_tflops`` (peak in
    TFLOP/s at 16 bit), ``memory_gb``, ``network_bandwidth_gbps`` (GB/s) for ``network_bandwidth``.
    """

    other_names: ClassVar[Mapping[str, str]] = {"price": "gpu.price", "memory": "gpu.memory", "peak": "gpu.peak"}

    profile: ProfileGiven | None = None
    gpu: ProfileGiven | None = None
    num_nodes: PositiveInt = 1
    nodes: Annotated[list[NodeGroup], Field(min_length=1)] | None = None
    gpus_per_node: PositiveInt | None = None
    fabric: ProfileGiven | None = None
    profile_folder: Annotated[str, Field(min_length=1)] | None = None
    nic: NicConfig | None = None
    network_bandwidth: BytesPerSecond | None = None
    nics_per_node: Annotated[int, Field(strict=True, ge=1, le=1024)] | None = None
    exceptions: list[DeviceException] = Field(default_factory=list)
    slowdowns: list[Slowdown] = Field(default_factory=list)
    jitter: Jitter | None = None

    @model_validator(mode="before")
    @classmethod
    def _aliases(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        data = dict(data)
        for alias, key in (("gpu_model", "gpu"), ("num_gpus_per_node", "gpus_per_node")):
            if alias in data:
                data[key] = take(data, alias, key)
        if "network_bandwidth_gbps" in data:
            value = take(data, "network_bandwidth_gbps", "network_bandwidth")
            data["network_bandwidth"] = quantity(value, "GB/s")
        changes: dict[str, Any] = {}
        if "compute_tflops" in data:
            peak = {"dense": quantity(data.pop("compute_tflops"), "TFLOP/s"), "sparse": None}
            changes["peak"] = {"fp16": peak, "bf16": peak}
        if "memory_gb" in data:
            changes["memory"] = quantity(data.pop("memory_gb"), "GB")
        if changes:
            data["gpu"] = changed_gpu(data.get("gpu"), changes)
        return data

    @model_validator(mode="before")
    @classmethod
    def _count_nodes(cls, data: Any) -> Any:
        """`num_nodes` is the sum over the kinds."""
        if not isinstance(data, dict) or not isinstance(data.get("nodes"), list | tuple):
            return data
        counts = [_count_of(each) for each in data["nodes"]]
        if not all(isinstance(count, int) for count in counts):
            return data  # the schema reports what is wrong
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


class RoutingConfig(FrozenModel):
    """How transfers use several shortest paths; a name alone, such as ``ecmp``, stands for its `kind`.

    ``adaptive`` and ``per_packet`` use all of them, the former in proportion to what they can carry. ``ecmp`` hashes
    `qps` queue pairs of every transfer onto paths, and another `seed` hashes them otherwise. ``shortest`` uses the
    first path; in a torus that is dimension order.
    """

    kind: Literal["adaptive", "per_packet", "ecmp", "shortest"]
    seed: Annotated[int, Field(strict=True, ge=0, le=2**31)] | None = None
    qps: Annotated[int, Field(strict=True, ge=1, le=1024)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _kind_alone(cls, data: Any) -> Any:
        return {"kind": data} if isinstance(data, str) else data

    @model_validator(mode="after")
    def _hashes_of_ecmp(self) -> Self:
        for name in ("seed", "qps"):
            if getattr(self, name) is not None and self.kind != "ecmp":
                raise invalid_at((name,), f"{name} belongs to kind ecmp, not to {self.kind}", getattr(self, name))
        return self


class NetworkConfig(FrozenModel):
    """How the nodes (or, in nodes of one GPU, the GPUs) are joined, and how transfers share links.

    Alias: ``base_latency_us``.

    `routing` says how transfers use several shortest paths: by default ``adaptive`` in fat_tree, rail_optimized,
    dragonfly and custom, and ``shortest`` in the others.

    Of a torus, `dims` are its sides, in nodes. Of a fat tree and of rails, `leaf_size` are the nodes below a leaf
    switch, `oversubscription` is the bandwidth of a leaf's downlinks over that of its uplinks, and `radix` are the
    ports of a switch; with `pxn`, traffic for another rail first goes to the GPU of its own node that is on that rail
    (as in NCCL), without it over a spine. A dragonfly has `nodes_per_router`, `routers_per_group` and
    `global_links_per_router`. A custom graph has `edges`, or an `edges_file` beside the experiment: between GPUs
    (``gpu0`` …; insides of nodes and NICs are then drawn too) or between nodes (``node0`` …).

    `tuning` says what collectives cost besides the links: ``nccl`` adds its protocols where their constants for the
    GPU are known, with ``none`` they take what the links say. `degradations` are links that are weak for some time.

    `contention` says how transfers share links: ``fair`` (max-min, as the packets of several transfers interleave; the
    default), or ``fifo``, which serves whole messages in turn, as ``switching: store_and_forward`` always does.
    """

    topology_type: TopologyType = "switch"
    tuning: Literal["nccl", "none"] = "nccl"
    base_latency: NonNegativeSeconds | None = None
    link_bandwidth: BytesPerSecond | None = None
    routing: RoutingConfig | None = None
    dims: tuple[PositiveInt, ...] | None = None
    leaf_size: PositiveInt | None = None
    oversubscription: Annotated[float, Field(strict=True, ge=0.1, le=1000)] | None = None
    radix: Ports | None = None
    pxn: bool | None = None
    nodes_per_router: PositiveInt | None = None
    routers_per_group: Ports | None = None
    global_links_per_router: Ports | None = None
    edges: Edges | None = None
    edges_file: Annotated[str, Field(min_length=1)] | None = None
    contention: Contention | None = None
    switching: Switching = "cut_through"
    degradations: list[Degradation] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _aliases(cls, data: Any) -> Any:
        if isinstance(data, dict) and "base_latency_us" in data:
            data = dict(data)
            data["base_latency"] = quantity(take(data, "base_latency_us", "base_latency"), "us")
        return data

    @model_validator(mode="after")
    def _settings_of_its_own(self) -> Self:
        for name, types in SETTINGS_OF.items():
            value = getattr(self, name)
            if value is not None and self.topology_type not in types:
                message = f"{name} belongs to topology_type {' or '.join(types)}, not to {self.topology_type}"
                raise invalid_at((name,), message, value)
        sides = {"torus_2d": 2, "torus_3d": 3}.get(self.topology_type)
        if self.dims is not None and len(self.dims) != sides:
            raise invalid_at(("dims",), f"a {self.topology_type} has {sides} sides, not {len(self.dims)}", self.dims)
        if self.topology_type == "custom" and (self.edges is None) == (self.edges_file is None):
            raise invalid("a custom topology needs edges, a list such as [{from: gpu0, to: sw0}], or an edges_file")
        return self

    @property
    def sharing(self) -> Contention:
        """How transfers share links, if nothing is said as the switching needs it."""
        return self.contention or ("fair" if self.switching == "cut_through" else "fifo")

    @model_validator(mode="after")
    def _switching_of_the_model(self) -> Self:
        if self.contention == "fair" and self.switching != "cut_through":
            raise invalid(
                "contention: fair knows no queues of transfers; for switching: store_and_forward, set contention: fifo"
            )
        return self
