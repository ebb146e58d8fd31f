"""The schema of hardware profiles: GPUs, nodes, network fabrics, and the software engines that run on them.

A profile is one YAML file in ``hardware_profiles/``. Quantities carry units, and ``sources`` says of every number
where it comes from: its keys are fields (``memory``, ``link.latency``) and speak for all that is below them.
`simsys.config.hardware` finds and reads the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import date
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from simsys.config.base import FrozenModel, invalid
from simsys.config.kernel_schema import DType, Efficiency, Floors, KernelKind
from simsys.errors import did_you_mean
from simsys.units import (
    Bytes,
    BytesPerSecond,
    FlopPerSecond,
    Fraction,
    NonNegativeBytes,
    NonNegativeSeconds,
    UsdPerHour,
    Watts,
)

Count = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]

UNSOURCED = frozenset({"name", "vendor", "sources", "fits", "price"})
"""Fields that `sources` does not speak for; a price has its own."""


class Fit(FrozenModel):
    """How a number was fitted to measurements.

    Args:
        fitted_on: The measurements, such as ``aiconfigurator GEMM tables, 252 rows``.
        error: Mean absolute relative error on measurements that the fit has not seen.
        error_of_fit: The same on those that it has seen.
        command: What fitted it.
        as_of: When.
    """

    fitted_on: str
    error: Fraction
    error_of_fit: Fraction | None = None
    command: str = ""
    as_of: date | None = None


def leaves(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted path, value) of everything in nested mappings that is not a mapping."""
    for key, value in fields.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from leaves(value, f"{path}.")
        else:
            yield path, value


def _plain_value(key: str) -> Callable[[Any], Any]:
    """A validator that takes a plain value for a mapping with this key alone."""

    def expand(given: Any) -> Any:
        return {key: given} if isinstance(given, str | int | float) and not isinstance(given, bool) else given

    return expand


def speaks_for(key: str, path: str) -> bool:
    """Whether a key of ``sources`` is `path` or a field above it."""
    return path == key or path.startswith(key + ".")


class Profile(FrozenModel):
    """What all profiles have in common.

    Args:
        name: The file's name without ``.yaml``.
        sources: Where the numbers come from, by field.
        fits: For fields that were fitted: on what, and how well.
    """

    name: Annotated[str, Field(min_length=1)]
    sources: dict[str, Annotated[str, Field(min_length=1)]]
    fits: dict[str, Fit] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _every_number_has_a_source(self) -> Self:
        stated = dict(leaves(self.model_dump(exclude_unset=True, exclude=set(UNSOURCED))))
        numbers = [path for path, value in stated.items() if isinstance(value, int | float | tuple)]
        missing = [path for path in numbers if not any(speaks_for(key, path) for key in self.sources)]
        if missing:
            raise invalid(f"no source for {', '.join(missing)}: say in 'sources' where each number comes from")
        for field in ("sources", "fits"):
            for key in getattr(self, field):
                if not any(speaks_for(key, path) for path in stated):
                    raise invalid(f"{field} names {key!r}, which is no field here{did_you_mean(key, stated)}")
        return self


class Peak(FrozenModel):
    """Peak rate in one dtype; `sparse` is the vendor's figure for 2:4 structured sparsity and is not used.

    A plain rate is the dense one.
    """

    dense: FlopPerSecond
    sparse: FlopPerSecond | None = None

    _plain = model_validator(mode="before")(_plain_value("dense"))


class Link(FrozenModel):
    """A connection; bandwidth is of one direction."""

    bandwidth: BytesPerSecond
    latency: NonNegativeSeconds


class GpuLink(Link):
    """All links of one GPU to the others of its node together, nominal."""

    kind: Literal["nvlink", "pcie", "infinity_fabric"]


class Price(FrozenModel):
    """What one GPU (or node) costs to rent, and when and where that was asked; a plain price is the user's own."""

    usd_per_hour: UsdPerHour
    as_of: date | None = None
    source: str = "user"

    _plain = model_validator(mode="before")(_plain_value("usd_per_hour"))


class Host(FrozenModel):
    """The processors and the memory beside GPUs.

    Args:
        memory_bandwidth: Peak bandwidth of that memory.
        optimizer_efficiency: Share of it that an optimizer on the processors reaches.
        core_speed: How fast one core launches kernels and schedules requests, over one of a DGX A100; left out, 1.
    """

    memory_bandwidth: BytesPerSecond
    optimizer_efficiency: Fraction
    core_speed: Annotated[float, Field(strict=True, ge=0.1, le=10)] | None = None


PLATFORM_OF: Mapping[str, str] = {"nvidia": "CUDA", "amd": "ROCm"}
"""Software platform of the GPUs of a vendor that has one; Intel has XPU and Gaudi."""


class GpuProfile(Profile):
    """One GPU model.

    Args:
        vendor: Who makes it.
        platform: Its software platform, such as ``CUDA``; left out, that of the vendor (`PLATFORM_OF`).
        compute_capability: What NVIDIA calls the features of a generation, such as 9.0.
        nccl: Generation whose constants NCCL's tuning model has for it; left out, transfers cost what the links say.
        peak: Peak rate by dtype, for the dtypes it has.
        memory: Device memory that the driver shows; GiB where the vendor's "GB" are GiB.
        memory_reserved: What of it the driver keeps, so that no program can have it.
        memory_bandwidth: Peak bandwidth of that memory.
        link: To the other GPUs of a node.
        pcie: To the host.
        host: One GPU's share of a host, where no node profile says more.
        tdp: Thermal design power.
        price: Of one GPU.
        efficiency: Shares of the peaks that kernels reach.
        kernel_floor: What a kernel takes beside computing and moving data, by kind: launch, first loads, tail. One
            time, or one by dtype or ``default``.
        kernel_gap: What a serving step loses between kernels, over what an engine's `per_layer` says, which is of an
            A100; left out, as much.
    """

    vendor: str
    platform: Annotated[str, Field(min_length=1)] | None = None
    compute_capability: Annotated[float, Field(strict=True, ge=1, le=100)] | None = None
    nccl: Literal["volta", "ampere", "hopper", "blackwell"] | None = None
    peak: Annotated[dict[DType, Peak], Field(min_length=1)]
    memory: Bytes
    memory_reserved: NonNegativeBytes | None = None
    memory_bandwidth: BytesPerSecond
    link: GpuLink
    pcie: Link
    host: Host | None = None
    tdp: Watts
    price: Price | None = None
    efficiency: Efficiency
    kernel_floor: dict[KernelKind, Floors] = Field(default_factory=dict)
    kernel_gap: Annotated[float, Field(strict=True, ge=0.1, le=10)] | None = None

    @property
    def software_platform(self) -> str | None:
        """Its software platform, given or that of its vendor; None if neither is known."""
        return self.platform or PLATFORM_OF.get(self.vendor.lower())


class Interconnect(Link):
    """What joins the GPUs of a node: bandwidth per GPU after protocol overhead, latency per hop.

    Args:
        kind: One switch (``nvswitch``, ``pcie_switch``), links of each pair (``nvlink_mesh``), the wiring of a DGX-1V
            (``hybrid_cube_mesh``; bandwidth of one NVLink), or PCIe switches below the sockets of the host
            (``pcie_tree``; bandwidth of a GPU's PCIe link).
        gpus_per_switch: Of a ``pcie_tree``, GPUs below each switch; the node's NICs are spread over the switches.
        uplink: Of a ``pcie_tree``, each switch to its host bridge; by default as the GPUs' links.
        sockets: Of a ``pcie_tree``, sockets of the host.
        socket_link: Of a ``pcie_tree`` with several sockets, what joins each two.
        in_switch_reduction: Of an ``nvswitch``, whether it can add up what the GPUs send (NVLink SHARP).
    """

    kind: Literal["nvswitch", "nvlink_mesh", "hybrid_cube_mesh", "pcie_switch", "pcie_tree"]
    gpus_per_switch: Count | None = None
    uplink: Link | None = None
    sockets: Count | None = None
    socket_link: Link | None = None
    in_switch_reduction: bool | None = None

    @model_validator(mode="after")
    def _tree_is_whole(self) -> Self:
        given = [name for name in ("gpus_per_switch", "uplink", "sockets", "socket_link") if getattr(self, name)]
        if self.kind != "pcie_tree" and given:
            raise invalid(f"{given[0]} belongs to kind: pcie_tree, not to {self.kind}")
        if self.kind == "pcie_tree" and self.gpus_per_switch is None:
            raise invalid("a pcie_tree needs gpus_per_switch")
        if self.in_switch_reduction and self.kind != "nvswitch":
            raise invalid(f"in_switch_reduction belongs to kind: nvswitch, not to {self.kind}")
        if (self.sockets or 1) > 1 and self.socket_link is None:
            raise invalid("several sockets need a socket_link, e.g. {bandwidth: 20 GB/s, latency: 500 ns}")
        return self


class Nics(Link):
    """The network cards of a node, alike: bandwidth of each, latency from GPU memory to the wire."""

    count: Count


class NodeProfile(Profile):
    """One machine: its GPUs, what joins them, its network cards, and its host, which the GPUs share."""

    gpu: str
    gpus_per_node: Count
    interconnect: Interconnect
    nics: Nics
    host: Host | None = None
    price: Price | None = None


class FabricProfile(Profile):
    """A network between nodes: line rate of one port, latency of one switch, and how many ports it has (`radix`)."""

    kind: Literal["infiniband", "ethernet"]
    bandwidth: BytesPerSecond
    latency: NonNegativeSeconds
    radix: Count | None = None
