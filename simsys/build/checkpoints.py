"""From a scenario's checkpoints to the times that they take."""

from __future__ import annotations

from simsys.config.iterations import CheckpointConfig
from simsys.executors.iterations.checkpoints import Checkpoints
from simsys.platform.device_spec import DeviceSpec


def build_checkpoints(
    settings: CheckpointConfig | None, spec: DeviceSpec, whole_bytes: float, copied_bytes: float
) -> Checkpoints | None:
    """The checkpoints of a training job; None if it takes none.

    Args:
        settings: When they are taken, and to where.
        spec: The GPU, whose link to the host each rank has to itself.
        whole_bytes: Size of a checkpoint.
        copied_bytes: The most that one rank copies to its host.
    """
    if settings is None:
        return None
    copy_s = spec.pcie_latency_s + copied_bytes / spec.pcie_bytes_per_s
    write_s = whole_bytes / settings.storage_bandwidth
    if settings.asynchronous:
        return Checkpoints(settings.interval, copy_s, write_s)
    return Checkpoints(settings.interval, copy_s + write_s)
