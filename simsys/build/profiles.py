"""The hardware and engine profiles that a scenario uses, and the settings that they inherit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from simsys.build.nodes import gpu_given
from simsys.config.cluster import HardwareConfig
from simsys.config.experiment import SimulationConfig
from simsys.config.hardware import Given, Kind, inherited, load_node

DEFAULT_FABRIC = "infiniband-hdr"
"""The fabric that supplies latency and ports to a network if neither the experiment nor its nodes name one."""

NOUNS: Mapping[Kind, Mapping[str, str]] = {
    "gpu": {
        "price": "price",
        "efficiency": "efficiencies",
        "kernel_floor": "kernel overheads",
        "kernel_gap": "kernel overheads",
        "nccl": "NCCL constants",
    },
    "node": {"price": "price", "interconnect": "interconnect", "nics": "NICs", "host": "host"},
}
"""Names in messages of fields that were measured or are specific to one model."""


def with_fabric(hardware: HardwareConfig, paths: Sequence[Path]) -> HardwareConfig:
    """The settings with the fabric of their (first) node profile, if they name none and it does.

    Raises:
        SimsysError: If there is no such node profile.
    """
    given = hardware.nodes[0].profile if hardware.nodes else hardware.profile
    if hardware.fabric is not None or given is None:
        return hardware
    return hardware.model_copy(update={"fabric": load_node(given, paths).fabric})


def profiles_of(config: SimulationConfig) -> Iterator[tuple[Kind, Given]]:
    """The profiles that a scenario and its jobs use, by kind.

    Raises:
        SimsysError: If there is no such node profile.
    """
    yield from hardware_profiles(config.hardware, config.profile_folders)
    yield "fabric", with_fabric(config.hardware, config.profile_folders).fabric or DEFAULT_FABRIC
    for one in [config.job(job) for job in config.jobs or ()] or [config]:
        settings = one.training or one.serving
        assert settings is not None
        yield "engine", settings.engine


def hardware_profiles(hardware: HardwareConfig, paths: Sequence[Path]) -> Iterator[tuple[Kind, Given]]:
    """The profiles of the nodes and GPUs of a cluster, each once.

    Args:
        hardware: The settings of nodes and GPUs.
        paths: Folders with the user's own profiles.

    Raises:
        SimsysError: If there is no such node profile.
    """
    found: list[tuple[Kind, Given]] = []
    nodes = [group.profile for group in hardware.nodes or ()]
    nodes += [hardware.profile] if hardware.profile is not None else []
    for given in nodes:
        found += [("node", given), ("gpu", gpu_given(hardware, load_node(given, paths)))]
    found += [] if nodes else [("gpu", gpu_given(hardware, None))]
    found += [("gpu", each.gpu) for each in hardware.exceptions if each.gpu is not None]
    yield from (each for place, each in enumerate(found) if each not in found[:place])


def origins(profiles: Iterable[tuple[Kind, Given]], paths: Sequence[Path]) -> Iterator[str]:
    """A line for each profile that extends another, with the settings that it inherits.

    Args:
        profiles: The profiles, by kind.
        paths: Folders with the user's own profiles.
    """
    listed = list(profiles)
    priced = any(load_node(given, paths).price is not None for kind, given in listed if kind == "node")
    for kind, given in listed:
        base, fields = inherited(kind, given, paths)
        if kind == "gpu" and priced:
            fields -= {"price"}  # the price of the node is used
        nouns = dict.fromkeys(noun for field, noun in NOUNS[kind].items() if field in fields)
        if base and nouns:
            name = given if isinstance(given, str) else given.get("name", f"{base} (changed)")
            yield f"{'GPU' if kind == 'gpu' else kind} {name} takes over from {base}: {', '.join(nouns)}"
