"""Durations of recorded computations on the GPUs of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simsys.build.cluster import Cluster
from simsys.build.device import build_device_spec
from simsys.chakra.config import ReplayConfig
from simsys.chakra.reading import Workload
from simsys.chakra.tasks import GpuWork, RankTasks
from simsys.config.hardware import load_gpu, own_folders
from simsys.errors import ConfigError, Problem, TraceError
from simsys.platform.device_spec import DeviceSpec

Seconds = Callable[[int, GpuWork], float]
"""Duration of a computation of a rank."""


def recorded(rank: int, work: GpuWork) -> float:
    """The duration in the trace."""
    return work.duration_s


class Scaled:
    """Recorded durations times the ratio of roofline times (Williams et al. 2009): of this GPU, of the recorded one.

    So efficiencies of kernels are assumed to be equal on both.

    Args:
        specs: The GPU of each rank.
        before: The GPU of the traces.
        dtype: Compute dtype.
    """

    def __init__(self, specs: Sequence[DeviceSpec], before: DeviceSpec, dtype: str) -> None:
        self._specs, self._before, self._dtype = specs, before, dtype

    def __call__(self, rank: int, work: GpuWork) -> float:
        """The scaled duration."""
        return work.duration_s * self._roofline_s(self._specs[rank], work) / self._roofline_s(self._before, work)

    def _roofline_s(self, spec: DeviceSpec, work: GpuWork) -> float:
        return max(work.flop / spec.peak_flop_per_s[self._dtype], work.nbytes / spec.memory_bytes_per_s)


def durations(config: ReplayConfig, workload: Workload, cluster: Cluster) -> Seconds:
    """The durations that a replay uses.

    Raises:
        ConfigError: If they are to be scaled, and the GPU or the dtype of the traces is unknown, or a GPU has not this
            dtype.
        TraceError: If a computation has neither FLOP nor bytes to scale it by.
        UnknownNameError: If there is no profile of the recorded GPU.
    """
    settings, stated = config.chakra, workload.metadata
    if settings.compute == "recorded":
        return recorded
    name = settings.recorded_on or stated.get("gpu")
    dtype = settings.dtype or stated.get("dtype")
    for key, value in (("recorded_on", name), ("dtype", dtype)):
        if not isinstance(value, str):
            raise ConfigError([Problem("the traces do not state it; compute: scaled needs it", f"chakra.{key}")])
    own = own_folders(config.folder, config.hardware.profile_folder)
    before = build_device_spec(load_gpu(str(name), own))
    for spec in (before, *cluster.specs[: len(workload.ranks)]):
        if dtype not in spec.peak_flop_per_s:
            message = f"{spec.name} has no {dtype} arithmetic; it has {', '.join(spec.peak_flop_per_s)}"
            raise ConfigError([Problem(message, "chakra.dtype")])
    for rank in workload.ranks:
        _check_scalable(rank)
    return Scaled(cluster.specs, before, str(dtype))


def _check_scalable(rank: RankTasks) -> None:
    for index, task in enumerate(rank.tasks):
        work = task.action
        if isinstance(work, GpuWork) and work.duration_s and not (work.flop or work.nbytes):
            raise TraceError(f"{rank.place(index)}: compute: scaled needs num_ops or tensor_size, and it has neither")
