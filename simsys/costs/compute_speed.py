"""How fast ranks compute: what their devices can do at the time, and how computation varies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from simsys.costs.jitter import Jitter
from simsys.model.work import Work
from simsys.ops import Compute
from simsys.parallel.layout import Group
from simsys.platform.device_spec import DeviceSpec, work_seconds
from simsys.platform.timeline import Timeline


class WorkCost:
    """Durations of a `Work` on a device, cached per pair, and on its host.

    Args:
        per_layer_s: Gaps between the kernels of a layer.
        launch_per_layer_s: Host time to launch a layer.
    """

    def __init__(self, per_layer_s: float, launch_per_layer_s: float = 0.0) -> None:
        self._per_layer_s, self._host_per_layer_s = per_layer_s, per_layer_s + launch_per_layer_s
        self._seconds: dict[tuple[Work, int], float] = {}

    def seconds(self, work: Work, spec: DeviceSpec) -> float:
        """Duration of `work` on a device of this kind, if the host launches it in time."""
        key = work, id(spec)
        found = self._seconds.get(key)
        if found is None:
            found = self._seconds[key] = work_seconds(spec, work, self._per_layer_s)
        return found

    def launching_seconds(self, work: Work) -> float:
        """Host time to launch `work`."""
        return work.host_s + work.layers * self._host_per_layer_s


class Computing(Protocol):
    """A device that computes; `simsys.platform.device.Device` is one."""

    busy_s: float
    """For how long it has computed (s)."""
    timeline: Timeline[DeviceSpec] | None
    """Its specification over time, if its speed changes."""
    launched_s: float
    """When its host has launched all that it was to do so far, in seconds."""
    lost_s: float
    """Delay of its next computation by an overlapped collective, in seconds."""
    slowness: float
    """Current slow-down factor relative to the specification."""

    def spec_at(self, time_s: float) -> DeviceSpec:
        """Its specification for an operation that begins at a time."""


class Represented:
    """The ranks that one rank represents, with jitter: it is the slowest of them in each iteration.

    Args:
        device: The device of the representative rank.
        factors: For each iteration, their largest factor and their mean one.
    """

    def __init__(self, device: Computing, factors: Iterator[tuple[float, float]]) -> None:
        self._device, self._factors = device, factors
        self._share = 1.0  # mean over largest factor of this iteration
        self._before_s = self._began_s = device.busy_s  # at its begin, their mean and the device's own

    def begin_iteration(self) -> None:
        """Draw the factors of the iteration that begins."""
        self._before_s, self._began_s = self.busy_s, self._device.busy_s
        largest, mean = next(self._factors)
        self._device.slowness, self._share = largest, mean / largest

    @property
    def busy_s(self) -> float:
        """Mean time for which their GPUs have computed (s)."""
        return self._before_s + self._share * (self._device.busy_s - self._began_s)


class ComputeSpeed:
    """Durations of computations, equal at all levels of detail.

    Args:
        devices: By rank.
        per_layer_s: Gaps between the kernels of a layer.
        launch_per_layer_s: Host time to launch a layer.
        jitter: Random variation of computations, or None.
        stands_for: For each representative rank, the ranks that it represents.
    """

    def __init__(
        self,
        devices: Sequence[Computing],
        per_layer_s: float,
        launch_per_layer_s: float,
        jitter: Jitter | None,
        stands_for: Mapping[int, Sequence[int]],
    ) -> None:
        self._devices, self._jitter, self._stands_for = devices, jitter, stands_for
        self._cost, self._launches = WorkCost(per_layer_s, launch_per_layer_s), launch_per_layer_s > 0.0
        self._represented: dict[int, Represented] = {}
        self._of_teams: dict[Group, Iterator[float]] = {}
        self.iterations_vary = jitter is not None
        """True if iterations with equal work may have different times."""

    def seconds(self, op: Compute, start_s: float) -> float:
        """Duration of a computation that begins at a time, and ends when it is done and all of it is launched.

        Launches run ahead of the GPU, also while it waits for other ranks.
        """
        work_s, launching_s = self.costs(op, start_s)
        device = self._devices[op.rank]
        device.launched_s += launching_s
        work_s += device.lost_s
        device.lost_s = 0.0
        launched_in_s = device.launched_s - start_s
        if launched_in_s <= work_s:
            return work_s
        device.busy_s -= launched_in_s - work_s  # its wait for launches, since all of the duration counts as busy
        return launched_in_s

    def costs(self, op: Compute, start_s: float) -> tuple[float, float]:
        """Duration of a computation from a start time, with the speed of that time, and of its launches."""
        device, work = self._devices[op.rank], op.work
        work_s = self._cost.seconds(work, device.spec_at(start_s)) * device.slowness
        return work_s, self._cost.launching_seconds(work) * device.slowness if self._launches else 0.0

    def begin_iteration(self) -> None:
        """Draw how fast every rank computes in the training iteration that begins."""
        if self._jitter is None:
            return
        for rank, ranks in self._stands_for.items():
            if rank not in self._represented:
                self._represented[rank] = Represented(self._devices[rank], self._jitter.largest_and_mean(ranks))
            self._represented[rank].begin_iteration()

    def busy_s(self, rank: int) -> float:
        """Busy time of a GPU so far, the mean over the ranks that it represents."""
        found = self._represented.get(rank)
        return self._devices[rank].busy_s if found is None else found.busy_s

    def begin_step(self, team: Group) -> float:
        """Slow-down of the computations of a serving team in the next step: that of its slowest rank."""
        if self._jitter is None:
            return 1.0
        if team not in self._of_teams:
            self._of_teams[team] = self._jitter.factors(team.ranks)
        return next(self._of_teams[team])

    def team_spec(self, team: Group, start_s: float) -> DeviceSpec:
        """The slowest device of a team, for a pass that begins at a time."""
        return min((self._devices[rank].spec_at(start_s) for rank in team.ranks), key=lambda spec: spec.speed)
