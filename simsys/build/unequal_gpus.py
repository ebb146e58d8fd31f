"""GPUs that differ from the rest of a cluster, during the whole run or for some time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf, prod
from pathlib import Path

from simsys.build.device import build_device_spec
from simsys.config.cluster import HardwareConfig
from simsys.config.hardware import Given, load_gpu
from simsys.config.imperfections import SomeGpus
from simsys.errors import ConfigError, Problem, SimsysError
from simsys.platform.device_spec import DeviceSpec
from simsys.platform.timeline import Period, Timeline, timeline


def device_specs(
    hardware: HardwareConfig, gpus_per_node: int, nodes: Sequence[DeviceSpec], paths: Sequence[Path] = ()
) -> list[DeviceSpec]:
    """The specification of each GPU at the beginning; equal ones are one object.

    Args:
        hardware: The settings with the exceptions.
        gpus_per_node: GPUs in each node.
        nodes: The GPU of each node without exceptions.
        paths: Folders with the user's own profiles.

    Raises:
        ConfigError: If a GPU, node or profile does not exist.
    """
    specs = [spec for spec in nodes for _ in range(gpus_per_node)]
    made: dict[tuple[str | int, float], DeviceSpec] = {}
    for index, each in enumerate(hardware.exceptions):
        path = f"hardware.exceptions[{index}]"
        other = None if each.gpu is None else _gpu(each.gpu, f"{path}.gpu", paths)
        for gpu in _named_gpus(each, gpus_per_node, len(nodes), path):
            base = nodes[gpu // gpus_per_node] if other is None else other
            key = id(base) if each.gpu is None else repr(each.gpu), each.speed
            if key not in made:
                made[key] = replace(base, speed=each.speed)
            specs[gpu] = made[key]
    return specs


def device_speeds(
    hardware: HardwareConfig, gpus_per_node: int, specs: Sequence[DeviceSpec]
) -> dict[int, Timeline[DeviceSpec]]:
    """The specifications over time of GPUs with slowdowns, by number; equal ones are one object.

    Raises:
        ConfigError: If a GPU or node does not exist.
    """
    slow: dict[int, list[int]] = {}
    for index, each in enumerate(hardware.slowdowns):
        path = f"hardware.slowdowns[{index}]"
        for gpu in sorted({*_named_gpus(each, gpus_per_node, len(specs) // gpus_per_node, path)}):
            slow.setdefault(gpu, []).append(index)
    made: dict[tuple[int, tuple[int, ...]], Timeline[DeviceSpec]] = {}
    found = {}
    for gpu, indexes in slow.items():
        key = id(specs[gpu]), tuple(indexes)
        if key not in made:
            made[key] = _slowed(specs[gpu], hardware, indexes)
        found[gpu] = made[key]
    return found


def _slowed(spec: DeviceSpec, hardware: HardwareConfig, indexes: Sequence[int]) -> Timeline[DeviceSpec]:
    own = [hardware.slowdowns[index] for index in indexes]

    def at(inside: tuple[int, ...]) -> DeviceSpec:
        return replace(spec, speed=spec.speed * prod(own[place].speed for place in inside)) if inside else spec

    return timeline([Period(each.from_, inf if each.until is None else each.until) for each in own], at)


def _gpu(given: Given, path: str, paths: Sequence[Path]) -> DeviceSpec:
    try:
        return build_device_spec(load_gpu(given, paths))
    except ConfigError as error:
        inside = [problem if problem.file else _below(path, problem) for problem in error.problems]
        raise ConfigError(inside) from None
    except SimsysError as error:
        raise ConfigError([Problem(str(error), path)]) from None


def _below(path: str, problem: Problem) -> Problem:
    """Report the problems of an inline profile at its place in the experiment."""
    return replace(problem, path=f"{path}.{problem.path}" if problem.path else path)


def _named_gpus(each: SomeGpus, gpus_per_node: int, num_nodes: int, path: str) -> list[int]:
    """The GPUs of a selection in the experiment; `path` is its place."""
    for key, names, count in (("gpus", each.gpus, num_nodes * gpus_per_node), ("nodes", each.nodes, num_nodes)):
        for index, number in enumerate(names):
            if number >= count:
                what = "GPU" if key == "gpus" else "node"
                last = f"s 0 to {count - 1}" if count > 1 else " 0 only"
                message = f"there is no {what} {number}; the cluster has {what}{last}"
                raise ConfigError([Problem(message, f"{path}.{key}[{index}]")])
    own = range(gpus_per_node)
    return [*each.gpus, *(node * gpus_per_node + gpu for node in each.nodes for gpu in own)]
