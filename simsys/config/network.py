"""The experiment file's description of the network, with the alias of the first designs."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from simsys.config.aliases import quantity, taken
from simsys.config.base import FrozenModel, invalid, invalid_at
from simsys.config.edges import Edges
from simsys.config.imperfections import Degradation
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
"""Upper bound of the ports of a switch and of other numbers of a topology; far above real hardware."""

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
"""Settings that only some topologies use."""


class RoutingConfig(FrozenModel):
    """How transfers use several shortest paths; a name alone, such as ``ecmp``, stands for its `kind`.

    ``adaptive`` and ``per_packet`` use all of them, the former in proportion to what they can carry. ``ecmp`` hashes
    `qps` queue pairs of every transfer onto paths, and the hash depends on `seed`. ``shortest`` uses the first path,
    which in a torus is dimension-order routing.
    """

    kind: Literal["adaptive", "per_packet", "ecmp", "shortest"] = Field(
        description="How a route is chosen among equal ones"
    )
    seed: Annotated[int, Field(strict=True, ge=0, le=2**31)] | None = Field(
        default=None, description="Seed of the hash function of ecmp"
    )
    qps: Annotated[int, Field(strict=True, ge=1, le=1024)] | None = Field(
        default=None, description="Queue pairs (flows) of each pair of GPUs under ecmp"
    )

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
    """Topology of the network between nodes (or between GPUs, if nodes have one GPU), and sharing of links.

    Alias: ``base_latency_us``.

    `routing` says how transfers use several shortest paths: by default ``adaptive`` in fat_tree, rail_optimized,
    dragonfly and custom, and ``shortest`` in the others.

    In a torus, `dims` are the sides in nodes. In fat_tree and rail_optimized, `leaf_size` is the number of nodes below
    a leaf switch, `oversubscription` is the bandwidth of a leaf's downlinks divided by the bandwidth of its uplinks,
    and `radix` is the number of ports of a switch. With `pxn`, traffic for another rail is first forwarded to the GPU
    on that rail in the same node (as in NCCL); without it, the traffic crosses a spine. A dragonfly has
    `nodes_per_router`, `routers_per_group` and `global_links_per_router`. A custom graph has `edges`, or an
    `edges_file` in the folder of the experiment: between GPUs (``gpu0`` …; the edges then include the inside of nodes
    and the NICs) or between nodes (``node0`` …).

    `tuning` sets the cost of collectives in addition to the links: ``nccl`` adds the protocols of NCCL if their
    constants are known for the GPU; with ``none`` only link times count. `degradations` are weak links.

    `contention` sets how transfers share links: ``fair`` (the default) is max-min sharing, as packets of several
    transfers interleave; ``fifo`` serves whole messages one after another, as does ``switching: store_and_forward``.
    """

    topology_type: TopologyType = Field(
        default="switch", description="Topology of the network between nodes (docs/explanation/networks.md)"
    )
    tuning: Literal["nccl", "none"] = Field(
        default="nccl",
        description="Choose algorithms and protocols of collectives as NCCL does, or by pure link times",
    )
    base_latency: NonNegativeSeconds | None = Field(
        default=None, description="Latency of a link between nodes; by default from the fabric"
    )
    link_bandwidth: BytesPerSecond | None = Field(
        default=None, description="Bandwidth of a link between nodes; by default from the fabric"
    )
    routing: RoutingConfig | None = Field(default=None, description="Choice among equal routes")
    dims: tuple[PositiveInt, ...] | None = Field(default=None, description="Sides of a torus in nodes")
    leaf_size: PositiveInt | None = Field(
        default=None, description="Nodes of a leaf switch (fat_tree, rail_optimized)"
    )
    oversubscription: Annotated[float, Field(strict=True, ge=0.1, le=1000)] | None = Field(
        default=None, description="Bandwidth of a leaf switch to its nodes, divided by its bandwidth to the spines"
    )
    radix: Ports | None = Field(default=None, description="Ports of a switch")
    pxn: bool | None = Field(
        default=None, description="Send over the NIC of another GPU of the node so that messages stay on their rail"
    )
    nodes_per_router: PositiveInt | None = Field(default=None, description="Nodes of a router (dragonfly)")
    routers_per_group: Ports | None = Field(default=None, description="Routers of a group (dragonfly)")
    global_links_per_router: Ports | None = Field(
        default=None, description="Links of a router to other groups (dragonfly)"
    )
    edges: Edges | None = Field(default=None, description="Links of a custom topology")
    edges_file: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="CSV or YAML file with the links of a custom topology"
    )
    contention: Contention | None = Field(
        default=None, description="How transfers share a link: fair (bandwidth divided) or fifo (one after another)"
    )
    switching: Switching = Field(
        default="cut_through", description="Forward a message while it arrives, or after it has arrived"
    )
    degradations: list[Degradation] = Field(default_factory=list, description="Links that are weak for some time")

    @model_validator(mode="before")
    @classmethod
    def _aliases(cls, data: Any) -> Any:
        if isinstance(data, dict) and "base_latency_us" in data:
            data = dict(data)
            data["base_latency"] = quantity(taken(data, "base_latency_us", "base_latency"), "us")
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
        """How transfers share links: as given, or else as the switching requires."""
        return self.contention or ("fair" if self.switching == "cut_through" else "fifo")

    @model_validator(mode="after")
    def _switching_of_the_model(self) -> Self:
        if self.contention == "fair" and self.switching != "cut_through":
            raise invalid(
                "contention: fair knows no queues of transfers; for switching: store_and_forward, set contention: fifo"
            )
        return self
