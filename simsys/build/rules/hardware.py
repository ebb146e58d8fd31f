"""The profiles that the hardware of a scenario names, each problem at the setting that names them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from simsys.build.device import build_device_spec
from simsys.build.nodes import gpu_given
from simsys.build.rules.findings import Findings
from simsys.config.document import KeyPath
from simsys.config.experiment import SimulationConfig
from simsys.config.hardware import Given, NodeProfile, load_fabric, load_gpu, load_node, no_profiles
from simsys.config.hardware_schema import Profile
from simsys.platform.device_spec import DeviceSpec

Profiled = TypeVar("Profiled", bound=Profile)

PROFILE, GPU, FABRIC = ("hardware", "profile"), ("hardware", "gpu"), ("hardware", "fabric")


def found_device(config: SimulationConfig, found: Findings) -> DeviceSpec | None:
    """Load the profiles that the hardware names; return the GPU's data if all of them are valid."""
    hardware, own = config.hardware, config.profile_folders
    before = len(found.errors)
    if hardware.profile_folder is not None and not own:
        found.error(("hardware", "profile_folder"), no_profiles(hardware.profile_folder))
    node: NodeProfile | None = None
    profile_at: KeyPath = PROFILE
    if hardware.nodes is not None:
        profile_at = ("hardware", "nodes", 0, "profile")
        kinds = [
            _profile(("hardware", "nodes", index, "profile"), group.profile, load_node, own, found)
            for index, group in enumerate(hardware.nodes)
        ]
        node = kinds[0]
    elif hardware.profile is not None:
        node = _profile(PROFILE, hardware.profile, load_node, own, found)
    if hardware.fabric is not None:
        _profile(FABRIC, hardware.fabric, load_fabric, own, found)
    if node is not None and hardware.nodes is None and (hardware.gpus_per_node or 0) > node.gpus_per_node:
        message = f"a {node.name} has {node.gpus_per_node} GPUs, not {hardware.gpus_per_node}; add nodes (num_nodes)"
        found.error(("hardware", "gpus_per_node"), message)
    gpu = None
    if hardware.gpu is not None and (node is not None or hardware.profile is None):
        given = found.attempt(GPU, lambda: gpu_given(hardware, node))
        gpu = _profile(GPU, given, load_gpu, own, found) if given is not None else None
    elif node is not None:
        gpu = _profile(profile_at, node.gpu, load_gpu, own, found)
    if gpu is None or len(found.errors) > before:
        return None
    return build_device_spec(gpu)


def _profile(
    path: KeyPath,
    given: Given,
    load: Callable[[Given, Sequence[Path]], Profiled],
    folders: Sequence[Path],
    found: Findings,
) -> Profiled | None:
    """Load the profile at a path of the scenario; record the problem if it or a parent is unknown or invalid."""
    extends = (*path, "extends")
    unknown_at = extends if isinstance(given, Mapping) and found.written(extends) else path
    return found.attempt(path, lambda: load(given, folders), error_at=unknown_at)
