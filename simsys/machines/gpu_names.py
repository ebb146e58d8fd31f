"""GPU profiles by the names and PCI devices that drivers report."""

from __future__ import annotations

from collections.abc import Mapping

from simsys.errors import ConfigError, Problem
from simsys.machines.machine import Machine

BY_NAME: Mapping[str, str] = {
    "NVIDIA A100-SXM4-40GB": "A100-SXM-40GB",
    "NVIDIA A100-SXM4-80GB": "A100-SXM-80GB",
    "NVIDIA A100 80GB PCIe": "A100-PCIE",
    "NVIDIA B200": "B200-SXM",
    "NVIDIA B300 SXM6 AC": "B300",
    "NVIDIA GB200": "GB200",
    "NVIDIA GB300": "GB300",
    "NVIDIA GH200 480GB": "GH200-96GB",
    "NVIDIA H100 80GB HBM3": "H100-SXM",
    "NVIDIA H200": "H200-SXM",
    "NVIDIA L4": "L4",
    "NVIDIA L40S": "L40S",
    "NVIDIA RTX A6000": "RTX-A6000",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "RTX-PRO-6000",
    "Tesla V100-SXM2-16GB": "V100-SXM-16GB",
    "Tesla V100-SXM2-32GB": "V100-SXM-32GB",
    "Tesla V100-SXM3-32GB": "V100-SXM-32GB",
}
"""Profiles by the name that ``nvidia-smi -L`` prints."""

BY_DEVICE: Mapping[str, str] = {
    "0x1db1": "V100-SXM-16GB",
    "0x1db5": "V100-SXM-32GB",
    "0x1db8": "V100-SXM-32GB",
    "0x20b0": "A100-SXM-40GB",
    "0x20b2": "A100-SXM-80GB",
    "0x20b5": "A100-PCIE",
    "0x2230": "RTX-A6000",
    "0x2330": "H100-SXM",
    "0x2335": "H200-SXM",
    "0x26b9": "L40S",
    "0x27b8": "L4",
    "0x2901": "B200-SXM",
}
"""Profiles by PCI device of vendor 10de (pci-ids.ucw.cz)."""


def gpu_profile_of(machine: Machine, given: str | None) -> str:
    """The GPU profile of a machine: the given one, or that of the model that the file names.

    Raises:
        ConfigError: If the file names none or several, or one without a profile.
    """
    if given is not None:
        return given
    models = sorted({gpu.model for gpu in machine.gpus if gpu.model})
    if not models:
        message = "the file does not name the GPU; give --gpu, or add the output of nvidia-smi -L to the file"
        raise ConfigError([Problem(message, file=machine.source)])
    names = {BY_NAME.get(model) or BY_DEVICE.get(model.lower()) for model in models}
    (name, *others) = sorted(names, key=str)
    if others:
        message = f"the GPUs differ ({', '.join(models)}); a node profile has one model, give --gpu"
        raise ConfigError([Problem(message, file=machine.source)])
    if not name:
        raise ConfigError([Problem(f"no GPU profile is known for {models[0]!r}; give --gpu", file=machine.source)])
    return name
