"""From a scenario's checkpoints to their times."""

from __future__ import annotations

from simsys.config.iterations import CheckpointConfig
from simsys.executors.iterations.checkpoints import Checkpoints
from simsys.platform.device_spec import DeviceSpec


def build_checkpoints(
    settings: CheckpointConfig | None, spec: DeviceSpec, whole_bytes: float, copied_bytes: float
) -> Checkpoints | None:
    """The checkpoints of a training job; None if it has none.

    Args:
        settings: Their interval and the storage.
        spec: The GPU; each rank uses the link of its GPU to the host alone.
        whole_bytes: Size of a checkpoint.
        copied_bytes: Most bytes that one rank copies to its host.
    """
    if settings is None:
        return None
    copy_s = spec.pcie_latency_s + copied_bytes / spec.pcie_bytes_per_s
    write_s = whole_bytes / settings.storage_bandwidth
    if settings.asynchronous:
        return Checkpoints(settings.interval, copy_s, write_s)
    return Checkpoints(settings.interval, copy_s + write_s)
