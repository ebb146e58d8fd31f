"""The schema of hardware profiles: GPUs, nodes, network fabrics, and the software engines that run on them.

A profile is one YAML file in ``hardware_profiles/``. Quantities have units. ``sources`` gives the source of every
number: its keys are fields (``memory``, ``link.latency``), and a key also covers the fields below it.
`simsys.config.hardware` finds and reads the files.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
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

UNSOURCED = frozenset({"name", "aliases", "doubt", "vendor", "sources", "fits", "price"})
"""Fields that need no entry in `sources`; a price has its own source."""


class Fit(FrozenModel):
    """Describes how a number was fitted to measurements.

    Args:
        fitted_on: The measurements, such as ``aiconfigurator GEMM tables, 252 rows``.
        error: Mean absolute relative error on measurements that were not used in the fit.
        error_of_fit: Mean absolute relative error on the measurements of the fit.
        command: The command that fitted it.
        as_of: Date of the fit.
        intervals: The 80 % interval of the number (``value``), or of the largest point of a column of a curve
            (``compute``, ``memory``): the fit to sources drawn with replacement.
    """

    fitted_on: str
    error: Fraction
    error_of_fit: Fraction | None = None
    command: str = ""
    as_of: date | None = None
    intervals: dict[str, tuple[str | float, str | float]] = Field(default_factory=dict)


def leaves(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted path, value) of everything in nested mappings that is not a mapping."""
    for key, value in fields.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from leaves(value, f"{path}.")
        else:
            yield path, value


def _plain_value(key: str) -> Callable[[Any], Any]:
    """A validator that reads a plain value as a mapping with this one key."""

    def expand(given: Any) -> Any:
        return {key: given} if isinstance(given, str | int | float) and not isinstance(given, bool) else given

    return expand


def heads(path: str) -> Iterator[str]:
    """Yield the dotted path of a field, then those of the fields above it."""
    yield path
    while "." in path:
        path = path.rpartition(".")[0]
        yield path


def is_covered(path: str, keys: Container[str]) -> bool:
    """Whether keys, such as those of ``sources``, have a field or one above it."""
    return any(head in keys for head in heads(path))


class Profile(FrozenModel):
    """Fields that all profiles have.

    Args:
        name: The file's name without ``.yaml``.
        aliases: Further names of the profile, such as those of a cloud's instance types; a file of exactly such a name
            takes precedence. Not inherited.
        sources: Sources of the numbers, by field.
        fits: For fitted fields: the measurements and the errors of the fit.
    """

    name: Annotated[str, Field(min_length=1)]
    aliases: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    sources: dict[str, Annotated[str, Field(min_length=1)]]
    fits: dict[str, Fit] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _every_number_has_a_source(self) -> Self:
        stated = dict(leaves(self.model_dump(exclude_unset=True, exclude=set(UNSOURCED))))
        numbers = [path for path, value in stated.items() if isinstance(value, int | float | tuple)]
        missing = [path for path in numbers if not is_covered(path, self.sources)]
        if missing:
            raise invalid(f"no source for {', '.join(missing)}: say in 'sources' where each number comes from")
        known = {head for path in stated for head in heads(path)}
        for field in ("sources", "fits"):
            for key in getattr(self, field):
                if key not in known:
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
    """All links of one GPU to the other GPUs of its node together, nominal."""

    kind: Literal["nvlink", "pcie", "infinity_fabric", "shared_memory"]


class Price(FrozenModel):
    """Rent of one GPU or node, with date and source of the price; a plain number is the user's own price."""

    usd_per_hour: UsdPerHour
    as_of: date | None = None
    source: str = "user"

    _plain = model_validator(mode="before")(_plain_value("usd_per_hour"))


class Host(FrozenModel):
    """The processors and the memory of the host.

    Args:
        memory_bandwidth: Peak bandwidth of the host memory.
        optimizer_efficiency: Share of this bandwidth that an optimizer on the processors reaches.
        core_speed: Speed of one core at launching kernels and scheduling requests, over a DGX A100; left out, 1.
    """

    memory_bandwidth: BytesPerSecond
    optimizer_efficiency: Fraction
    core_speed: Annotated[float, Field(strict=True, ge=0.1, le=10)] | None = None


PLATFORM_OF: Mapping[str, str] = {"nvidia": "CUDA", "amd": "ROCm"}
"""Software platform of the GPUs of a vendor that has one; Intel has XPU and Gaudi."""


class GpuProfile(Profile):
    """One GPU model.

    Args:
        vendor: The manufacturer.
        platform: Its software platform, such as ``CUDA``; left out, the platform of the vendor (`PLATFORM_OF`).
        compute_capability: NVIDIA's number for the features of a generation, such as 9.0.
        nccl: GPU generation in NCCL's tuning model; left out, only link times count.
        peak: Peak rate by dtype, for the dtypes it has.
        memory: Device memory that the driver shows; GiB where the vendor's "GB" are GiB.
        memory_reserved: Part of the memory that the driver keeps and programs cannot use.
        memory_bandwidth: Peak bandwidth of the device memory.
        link: Links to the other GPUs of a node.
        pcie: Link to the host; left out for a CPU, which is its own host.
        host: One GPU's share of a host, for use without a node profile.
        tdp: Thermal design power; left out, energy is not known and counts as 0.
        price: Rent of one GPU.
        efficiency: Shares of the peaks that kernels reach.
        kernel_floor: Fixed time of a kernel by kind, in addition to computing and moving data: launch, first loads,
            tail. One time, or a time for each dtype or ``default``.
        kernel_gap: Time that a serving step loses between kernels, divided by `per_layer` of the engine (an A100);
            left out, 1.
        doubt: Why predictions of serving on it are doubtful; each run says it as a warning.
        matrix_unit: Edge of its systolic arrays in elements; products are padded to multiples of it. Left out for
            small matrix units, as of GPUs.
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
    pcie: Link | None = None
    host: Host | None = None
    tdp: Watts | None = None
    price: Price | None = None
    efficiency: Efficiency
    kernel_floor: dict[KernelKind, Floors] = Field(default_factory=dict)
    kernel_gap: Annotated[float, Field(strict=True, ge=0.1, le=10)] | None = None
    matrix_unit: Annotated[int, Field(strict=True, ge=1, le=4096)] | None = None
    doubt: Annotated[str, Field(min_length=1)] | None = None

    @property
    def software_platform(self) -> str | None:
        """Its software platform: the given one, or the platform of its vendor; None if neither is known."""
        return self.platform or PLATFORM_OF.get(self.vendor.lower())
