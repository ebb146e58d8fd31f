"""Rates of links, as NCCL counts with them, by generation."""

from __future__ import annotations

from dataclasses import dataclass

from simsys.config.hardware import GpuProfile
from simsys.machines.machine import Machine

TOPO_H = "NCCL src/graph/topo.h"
GBYTE = 1e9


@dataclass(frozen=True, slots=True)
class NvlinkGeneration:
    """NVLinks of GPUs from a compute capability on.

    Args:
        capability: The least compute capability times ten.
        name: Their generation, for people.
        bytes_per_s: Rate of one link and direction that NCCL counts with.
        links: Links of a GPU.
    """

    capability: int
    name: str
    bytes_per_s: float
    links: int


GENERATIONS = (
    NvlinkGeneration(100, "NVLink 5", 40.1 * GBYTE, 18),
    NvlinkGeneration(90, "NVLink 4", 20.6 * GBYTE, 18),
    NvlinkGeneration(86, "NVLink 3 bridges", 12.0 * GBYTE, 4),
    NvlinkGeneration(80, "NVLink 3", 20.0 * GBYTE, 12),
    NvlinkGeneration(70, "NVLink 2", 20.0 * GBYTE, 6),
    NvlinkGeneration(60, "NVLink 1", 18.0 * GBYTE, 4),
)
"""Newest first; rates are those of NCCL, src/graph/topo.h, numbers of links those of NVIDIA's architecture papers."""

SOCKET_RATES = {"AMD": 16.0 * GBYTE, "BDW": 6.0 * GBYTE, "SKL": 10.0 * GBYTE, "SRP": 22.0 * GBYTE, "ERP": 40.0 * GBYTE}
"""Rates between sockets: of AMD, and of Intel's Broadwell, Skylake, Sapphire Rapids and Emerald Rapids (NCCL,
src/graph/topo.h)."""
INTEL_FROM = (("ERP", 0xCF), ("SRP", 0x8F), ("SKL", 0x55))
"""Intel's generations by their least model number in family 6 (NCCL, src/graph/topo.cc)."""
PCIE_RATE = 12.0 * GBYTE / (8.0 * 16)
"""Rate that NCCL counts for 1 GT/s of one lane: 12 GB/s for PCIe 3.0 x16."""
NOMINAL_PCIE3 = 15.75 * GBYTE
NET_RATE = 12.0 / 100
"""Rate that NCCL counts for a line rate, in bytes per bit: 12 GB/s for 100 Gb/s."""


def generation_of(profile: GpuProfile) -> NvlinkGeneration | None:
    """The NVLinks of a GPU; None if its compute capability is unknown or too low."""
    capability = round(10 * (profile.compute_capability or 0.0))
    return next((each for each in GENERATIONS if capability >= each.capability), None)


def pcie_rate(machine: Machine, profile: GpuProfile) -> tuple[float, str]:
    """Rate of the PCIe link of the slowest GPU, as NCCL counts it."""
    known = [
        (gpu.pcie_gt_per_s, gpu.pcie_lanes) for gpu in machine.gpus if gpu.pcie_gt_per_s and gpu.pcie_lanes is not None
    ]
    if len(known) == len(machine.gpus):
        speed, lanes = min(known, key=lambda each: each[0] * each[1])
        return PCIE_RATE * speed * lanes, f"{speed:g} GT/s x{lanes}; {TOPO_H}: 12 GB/s for PCIe 3.0 x16"
    if profile.pcie is None:
        return 12.0 * GBYTE, f"assumed: {TOPO_H}, 12 GB/s for PCIe 3.0 x16 ({profile.name} states no PCIe link)"
    share = 12.0 * GBYTE / NOMINAL_PCIE3
    return share * profile.pcie.bandwidth, f"PCIe of {profile.name}; {TOPO_H}: 12 GB/s for PCIe 3.0 x16"


def socket_rate(machine: Machine) -> tuple[float, str]:
    """Rate between sockets, and why."""
    if machine.cpu is None:
        return SOCKET_RATES["AMD"], f"assumed: {TOPO_H}, 16 GB/s between AMD sockets (the file names no processor)"
    vendor, family, model = machine.cpu
    if "Intel" in vendor:
        name = next((each for each, least in INTEL_FROM if family == 6 and model >= least), "BDW")
        return SOCKET_RATES[name], f"{TOPO_H}: {name}_QPI_BW (family {family}, model {model})"
    if "AMD" in vendor:
        return SOCKET_RATES["AMD"], f"{TOPO_H}: AMD_BW"
    return SOCKET_RATES["AMD"], f"assumed: 16 GB/s, as between AMD sockets (processor {vendor})"
