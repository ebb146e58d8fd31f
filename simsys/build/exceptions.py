"""GPUs that differ from the others of a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from simsys.build.device import build_device_spec
from simsys.config.cluster import DeviceException, HardwareConfig
from simsys.config.hardware import load_gpu
from simsys.errors import UsageError
from simsys.platform.device_spec import DeviceSpec

if TYPE_CHECKING:
    from simsys.build.cluster import Cluster


def device_exceptions(hardware: HardwareConfig, cluster: Cluster) -> dict[int, DeviceSpec]:
    """What differs, by GPU; what differs alike is the same object.

    Raises:
        UsageError: If there is no such GPU or node.
    """
    made: dict[tuple[str | None, float], DeviceSpec] = {}
    found: dict[int, DeviceSpec] = {}
    for each in hardware.exceptions:
        key = each.gpu, each.speed
        if key not in made:
            base = cluster.spec if each.gpu is None else build_device_spec(load_gpu(each.gpu))
            made[key] = replace(base, speed=each.speed)
        for gpu in _named_gpus(each, cluster):
            found[gpu] = made[key]
    return found


def _named_gpus(each: DeviceException, cluster: Cluster) -> list[int]:
    for names, count, what in ((each.gpus, cluster.num_gpus, "GPU"), (each.nodes, cluster.num_nodes, "node")):
        beyond = [number for number in names if number >= count]
        if beyond:
            raise UsageError(f"there is no {what} {beyond[0]}; the cluster has {what}s 0 to {count - 1}")
    size = cluster.gpus_per_node
    return [*each.gpus, *(node * size + gpu for node in each.nodes for gpu in range(size))]
