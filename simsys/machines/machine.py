"""The GPUs, links and network cards of one machine, as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

NEAR = ("X", "PIX", "PXB", "PHB", "NODE", "SYS")
"""Distances over PCIe, the nearest first, as ``nvidia-smi topo -m`` names them: the device itself, one PCIe switch,
several, the host bridge of a CPU, several host bridges of a NUMA domain, and several NUMA domains."""


@dataclass(frozen=True, slots=True)
class MachineGpu:
    """One GPU.

    Args:
        name: Its name in the file, such as ``GPU0``.
        model: Its model or PCI device, as the file states it; empty if it does not.
        numa: Its NUMA domain; None if unknown.
        capability: Compute capability times ten, such as 90; None if unknown.
        pcie_gt_per_s: Speed of its PCIe link in GT/s of a lane; None if unknown.
        pcie_lanes: Lanes of this link; None if unknown.
    """

    name: str
    model: str = ""
    numa: int | None = None
    capability: int | None = None
    pcie_gt_per_s: float | None = None
    pcie_lanes: int | None = None


@dataclass(frozen=True, slots=True)
class MachineNic:
    """One network card.

    Args:
        name: Its name, such as ``mlx5_0``.
        bits_per_s: Line rate; None if unknown.
    """

    name: str
    bits_per_s: float | None = None


@dataclass(frozen=True)
class Machine:
    """One machine.

    Args:
        source: The file.
        kind: What the file is, for people.
        gpus: GPUs by number.
        nics: Network cards.
        nvlinks: Number of NVLinks between GPUs, by pair with the lower number first; through switches, all of a GPU.
        switched: Number of NVLinks of each GPU to NVSwitches; empty if the file does not distinguish these.
        gpu_distance: Distance over PCIe of GPUs, by pair with the lower number first.
        nic_distance: Distance of each network card from each GPU, by (GPU, card).
        cpu: Vendor, family and model of the processors; empty if unknown.
    """

    source: str
    kind: str
    gpus: Sequence[MachineGpu]
    nics: Sequence[MachineNic]
    nvlinks: Mapping[tuple[int, int], int] = field(default_factory=dict)
    switched: Sequence[int] = ()
    gpu_distance: Mapping[tuple[int, int], str] = field(default_factory=dict)
    nic_distance: Mapping[tuple[int, int], str] = field(default_factory=dict)
    cpu: tuple[str, int, int] | None = None

    def clusters(self, nearest: str) -> list[list[int]]:
        """GPUs that are within a distance of each other, directly or over others; in the order of their numbers."""
        limit, found = NEAR.index(nearest), list[list[int]]()
        for gpu in range(len(self.gpus)):
            near = [each for each in found if any(self._distance(gpu, other) <= limit for other in each)]
            found = [each for each in found if each not in near] + [sorted([*(i for each in near for i in each), gpu])]
        return sorted(found)

    def _distance(self, one: int, other: int) -> int:
        return NEAR.index(self.gpu_distance.get((min(one, other), max(one, other)), "SYS"))

    def nearest_nics(self) -> list[tuple[str, list[int]]]:
        """For each GPU, the distance of the nearest network cards, and which these are."""
        found = []
        for gpu in range(len(self.gpus)):
            ranks = {nic: NEAR.index(self.nic_distance[gpu, nic]) for nic in range(len(self.nics))}
            least = min(ranks.values(), default=len(NEAR) - 1)
            found.append((NEAR[least], [nic for nic, rank in ranks.items() if rank == least]))
        return found

    def pairs(self) -> Iterator[tuple[int, int]]:
        """All pairs of GPUs, the lower number first."""
        count = len(self.gpus)
        return ((one, other) for one in range(count) for other in range(one + 1, count))
