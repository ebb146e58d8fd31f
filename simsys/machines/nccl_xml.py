"""Reads the XML file that NCCL writes to ``NCCL_TOPO_DUMP_FILE``, or reads from ``NCCL_TOPO_FILE``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn
from xml.etree import ElementTree

from simsys.errors import ConfigError, Problem
from simsys.machines.machine import Machine, MachineGpu, MachineNic

KIND = "topology of NCCL (NCCL_TOPO_DUMP_FILE)"
GPU_CLASSES, NIC_CLASSES = ("0x0302", "0x0300"), ("0x0200", "0x0207")
"""Beginnings of PCI classes: 3D and VGA controllers; Ethernet and InfiniBand controllers."""
SWITCH = "0x068000"
"""PCI class of an NVSwitch, as the target of NVLinks; the class of a GPU is in `GPU_CLASSES`."""
_SPEED = re.compile(r"\s*(\d+(?:\.\d+)?)\s*GT/s.*")


@dataclass(frozen=True, slots=True)
class _Device:
    """A GPU or a network card in the tree.

    Args:
        above: Numbers of the PCI bridges above it, the highest first.
        cpu: Number of its processor.
        pci: Its PCI element; None for cards without one.
        element: Its own element; None if the file lists the PCI device alone.
    """

    above: tuple[int, ...]
    cpu: int
    pci: ElementTree.Element | None
    element: ElementTree.Element | None


def read_xml(text: str, source: str) -> Machine:
    """Read a topology of NCCL.

    Args:
        text: The text of the file.
        source: The file, for messages.

    Raises:
        ConfigError: If it is other XML, or a number in it makes no sense.
    """
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ConfigError([Problem("topologies of NCCL have no document type or entities", file=source)])
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        line, column = error.position
        message = f"not well-formed XML: {str(error).partition(':')[0]}"
        raise ConfigError([Problem(message, file=source, line=line, column=column + 1)]) from None
    return _Tree(root, source).machine()


class _Tree:
    """The tree of processors, bridges and devices.

    Args:
        root: The element ``system``.
        source: The file, for messages.
    """

    def __init__(self, root: ElementTree.Element, source: str) -> None:
        self._root, self._source = root, source
        self._bridges = 0
        self._cpus: list[ElementTree.Element] = []

    def machine(self) -> Machine:
        """The machine that the file describes."""
        if self._root.tag != "system":
            graph = " (that of NCCL_GRAPH_DUMP_FILE)" if self._root.tag == "graphs" else ""
            self._refuse("", f"the root element is <{self._root.tag}>{graph}, not <system>, as in {KIND}")
        devices = list(self._devices())
        gpus = sorted((each for each in devices if self._is_gpu(each)), key=self._number)
        nics = [each for each in devices if not self._is_gpu(each)]
        if not gpus:
            self._refuse("system", "there is no GPU")
        if any(each.element is not None and each.element.find("xgmi") is not None for each in gpus):
            self._refuse("system/cpu/pci/gpu", "xgmi links are those of AMD GPUs, which RCCL writes; NVLinks are read")
        ids = {each.pci.get("busid", ""): number for number, each in enumerate(gpus) if each.pci is not None}
        nvlinks, switched = self._nvlinks(gpus, ids)
        return Machine(
            self._source,
            KIND,
            [self._gpu(number, each) for number, each in enumerate(gpus)],
            [self._nic(number, each) for number, each in enumerate(nics)],
            nvlinks=nvlinks,
            switched=switched,
            gpu_distance={
                (one, other): _distance(gpus[one], gpus[other])
                for one in range(len(gpus))
                for other in range(one + 1, len(gpus))
            },
            nic_distance={
                (one, card): _distance(gpu, nic) for one, gpu in enumerate(gpus) for card, nic in enumerate(nics)
            },
            cpu=self._processor(),
        )

    def _devices(self) -> Iterator[_Device]:
        for cpu in self._root.findall("cpu"):
            self._cpus.append(cpu)
            yield from self._below(cpu, (), len(self._cpus) - 1, None)

    def _below(
        self, element: ElementTree.Element, above: tuple[int, ...], cpu: int, pci: ElementTree.Element | None
    ) -> Iterator[_Device]:
        """The devices below an element, which is a processor or a PCI device."""
        bridges = element.findall("pci")
        own = element.findall("gpu"), [net for nic in element.findall("nic") for net in nic.findall("net")]
        for each in (*own[0], *own[1]):
            yield _Device(above[:-1] if pci is not None else above, cpu, pci, each)
        listed = pci is not None and pci.get("class", "").startswith((*GPU_CLASSES, *NIC_CLASSES))
        if listed and not bridges and not any(own) and element.find("nic") is None:
            yield _Device(above[:-1], cpu, pci, None)
        for bridge in bridges:
            self._bridges += 1
            yield from self._below(bridge, (*above, self._bridges), cpu, bridge)

    @staticmethod
    def _is_gpu(device: _Device) -> bool:
        if device.element is not None:
            return device.element.tag == "gpu"
        return device.pci is not None and device.pci.get("class", "").startswith(GPU_CLASSES)

    def _number(self, device: _Device) -> int:
        return 0 if device.element is None else self._integer(device.element, "dev") or 0

    def _gpu(self, number: int, device: _Device) -> MachineGpu:
        pci = device.pci
        capability = None if device.element is None else self._integer(device.element, "sm")
        numa = self._integer(self._cpus[device.cpu], "numaid")
        model = "" if pci is None else pci.get("device", "")
        speed = None if pci is None else _SPEED.fullmatch(pci.get("link_speed", ""))
        lanes = None if pci is None else self._integer(pci, "link_width")
        return MachineGpu(f"GPU{number}", model, numa, capability, float(speed[1]) if speed else None, lanes or None)

    def _nic(self, number: int, device: _Device) -> MachineNic:
        net = device.element
        if net is None:
            return MachineNic(f"NIC{number}")
        megabits = self._integer(net, "speed")
        return MachineNic(net.get("name", f"NIC{number}"), megabits * 1e6 if megabits else None)

    def _nvlinks(self, gpus: list[_Device], ids: dict[str, int]) -> tuple[dict[tuple[int, int], int], list[int]]:
        """NVLinks between GPUs by pair, and NVLinks of each GPU to switches."""
        between: dict[tuple[int, int], int] = {}
        switched = [0] * len(gpus)
        for one, gpu in enumerate(gpus):
            for link in [] if gpu.element is None else gpu.element.findall("nvlink"):
                count, other = self._integer(link, "count") or 0, ids.get(link.get("target", ""))
                if other is not None:
                    pair = min(one, other), max(one, other)
                    if between.setdefault(pair, count) != count:
                        names = f"GPU{pair[0]} and GPU{pair[1]}"
                        self._refuse("gpu/nvlink", f"{names} have different numbers of NVLinks to each other")
                elif link.get("tclass", SWITCH).startswith(SWITCH):
                    switched[one] += count
        return between, switched

    def _processor(self) -> tuple[str, int, int] | None:
        for cpu in self._cpus:
            if cpu.get("vendor"):
                return (
                    cpu.get("vendor", ""),
                    self._integer(cpu, "familyid") or 0,
                    self._integer(cpu, "modelid") or 0,
                )
        return None

    def _integer(self, element: ElementTree.Element, name: str) -> int | None:
        """An attribute as an integer, decimal or with a prefix such as 0x; None if there is none."""
        text = element.get(name)
        if text is None or not text.strip():
            return None
        try:
            found = int(text, 0) if text.strip().lower().startswith(("0x", "-")) else int(text)
        except ValueError:
            self._refuse(element.tag, f"{name} is {text!r}, not an integer")
        if abs(found) > 1_000_000_000:
            self._refuse(element.tag, f"{name} is {text!r}, which is too large")
        return found

    def _refuse(self, path: str, message: str) -> NoReturn:
        raise ConfigError([Problem(message, path=path, file=self._source)])


def _distance(one: _Device, other: _Device) -> str:
    """The distance of two devices, as NCCL and nvidia-smi name it; a processor is a NUMA domain."""
    if one.cpu != other.cpu:
        return "SYS"
    common = [a for a, b in zip(one.above, other.above, strict=False) if a == b]
    if not common:
        return "PHB"
    return "PIX" if len(common) == len(one.above) == len(other.above) else "PXB"
