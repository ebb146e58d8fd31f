"""The virtual hardware that executors drive: GPUs, links, memory, one clock."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import simpy
from simpy.events import Event

from simsys.errors import UsageError
from simsys.model.operators import OperatorKind
from simsys.model.work import Kernel
from simsys.platform.device import Begun, Device, Seconds
from simsys.platform.device_spec import DeviceSpec, kernel_seconds
from simsys.platform.environment import Environment
from simsys.platform.events import At, fire_at
from simsys.platform.fifo import CutThroughNetwork
from simsys.platform.link import Link
from simsys.platform.link_spec import LinkSpec
from simsys.platform.network import Network
from simsys.platform.timeline import Timeline
from simsys.platform.topology import Topology
from simsys.platform.traffic import payload_bytes


class Platform:
    """A cluster of GPUs and links, in a SimPy environment.

    Args:
        specs: One `DeviceSpec` per GPU; GPU i is vertex i of the topology.
        topology: Links between the GPUs.
        env: The environment; by default a new one.
        network: The contention model.
        speeds: Varying GPUs with their specifications over time.
        links: Varying links with their specifications over time, by index.

    Raises:
        UsageError: If the number of specs is not the topology's number of GPUs.
    """

    def __init__(
        self,
        specs: Sequence[DeviceSpec],
        topology: Topology,
        env: simpy.Environment | None = None,
        network: type[Network[Any, Any]] = CutThroughNetwork,
        *,
        speeds: Mapping[int, Timeline[DeviceSpec]] | None = None,
        links: Mapping[int, Timeline[LinkSpec]] | None = None,
    ) -> None:
        if len(specs) != topology.num_gpus:
            raise UsageError(f"{len(specs)} devices do not fit a topology of {topology.num_gpus} GPUs")
        self.env = env if env is not None else Environment()
        timelines = speeds or {}
        self.devices = [Device(index, spec, timelines.get(index)) for index, spec in enumerate(specs)]
        self.network = network(self.env, topology, links)
        for device in self.devices:
            device.sharing = self.network.sharing
        slowed_s = (time_s for each in timelines.values() for time_s in each.changes_s)
        self._changes_s = sorted({*slowed_s, *self.network.changes_s})

    def epoch(self, time_s: float) -> int:
        """Number of changes of devices and links by a time."""
        return bisect_right(self._changes_s, time_s)

    def next_change_s(self, time_s: float) -> float:
        """When the first device or link changes after a time; infinity if none does."""
        place = self.epoch(time_s)
        return self._changes_s[place] if place < len(self._changes_s) else math.inf

    def submit_computation_task(
        self,
        gpu: int,
        seconds: Seconds | None = None,
        begun: Begun | None = None,
        *,
        flop: float = 0.0,
        nbytes: float = 0.0,
        dtype: str = "bf16",
    ) -> Event:
        """Queue a computation on a GPU, behind the tasks and requests that have come before.

        Args:
            gpu: Index of the GPU.
            seconds: The duration in seconds for a start at the given time, in place of `flop`, `nbytes` and `dtype`.
            begun: Called with start and end (s) as soon as these are known.
            flop: Floating-point operations.
            nbytes: Bytes read and written in device memory.
            dtype: Data type it computes in.

        Returns:
            An event that fires when it is done.

        Raises:
            UsageError: If there is no such GPU, or an amount is negative or not finite.
            InfeasibleError: If the GPU cannot compute in `dtype`.
        """
        if not 0 <= gpu < len(self.devices):  # `_check_gpu` written out: this runs for every computation
            raise self._no_such_gpu(gpu)
        device = self.devices[gpu]
        if seconds is None:
            seconds = self._kernel_seconds(device, flop, nbytes, dtype)
        if not device.turns:
            return At(self.env, device.compute(self.env._now, seconds, begun))
        return self._queue_computation(device, seconds, begun)

    def _queue_computation(self, device: Device, seconds: Seconds, begun: Begun | None) -> Event:
        """Let a computation wait behind the requests of a GPU."""
        event = Event(self.env)
        device.queue(lambda: fire_at(self.env, device.compute(self.env._now, seconds, begun), event))
        return event

    @staticmethod
    def _kernel_seconds(device: Device, flop: float, nbytes: float, dtype: str) -> Seconds:
        """The duration of a kernel on a device."""
        _check_amount("flop", flop)
        _check_amount("nbytes", nbytes)
        kind = OperatorKind.GEMM if flop else OperatorKind.MEMORY
        kernel = Kernel(kind=kind, flop=flop, nbytes=nbytes, rows=_SATURATED_ROWS, dtype=dtype)
        kernel_seconds(device.spec, kernel)  # refuses a data type at once, and not when its turn comes
        return lambda start_s: kernel_seconds(device.spec_at(start_s), kernel)

    def reserve_computation(self, gpu: int, seconds: Seconds, begun: Begun | None = None) -> None:
        """As `submit_computation_task`, without an event: for work that nothing but the calendar of its GPU awaits.

        Args:
            gpu: Index of the GPU, which no process of the user's own requests.
            seconds: The duration in seconds for a start at the given time.
            begun: Called with start and end (s).
        """
        self.devices[gpu].compute(self.env._now, seconds, begun)

    def submit_network_transfer_task(self, src: int, dst: int, nbytes: float) -> Event:
        """Send `nbytes` from GPU `src` to GPU `dst`; the returned event fires when the last byte has arrived.

        Raises:
            UsageError: If there is no such GPU, or `nbytes` is negative or not finite.
        """
        self._check_gpu(src)
        self._check_gpu(dst)
        _check_amount("nbytes", nbytes)
        return self.network.transfer(src, dst, nbytes)

    def share(self) -> None:
        """Declare that processes of the user's own request GPUs and links; before an executor is built.

        Executors then keep to the clock at every level of detail: every rank is a process, computations are tasks on
        their GPU, and transfers are carried out on the links. Without this, they refuse requests.
        """
        self.network.sharing.declared = True

    def get_links(self, src: int, dst: int) -> list[Link]:
        """The links on the way from GPU `src` to GPU `dst`, in order; parallel ones next to each other.

        Raises:
            UsageError: If there is no such GPU.
            InfeasibleError: If no path leads there.
        """
        self._check_gpu(src)
        self._check_gpu(dst)
        return [self.network.link(number) for hop in self.network.way(src, dst) for number, _ in hop]

    def get_route(self, src: int, dst: int) -> list[int]:
        """Vertices on the way from GPU `src` to GPU `dst`, both included.

        Raises:
            UsageError: If there is no such GPU.
            InfeasibleError: If no path leads there.
        """
        self._check_gpu(src)
        self._check_gpu(dst)
        return self.network.topology.get_route(src, dst)

    def utilization(self) -> list[float]:
        """Busy share of each GPU so far, 0 to 1; 0 at the very beginning."""
        now = self.env.now  # not below 0: medium detail also holds a GPU while a pass communicates
        return [max(0.0, device.busy_before(now)) / now if now else 0.0 for device in self.devices]

    def link_statistics(self, payload: Mapping[int, float] | None = None) -> dict[str, list[Any]]:
        """The used links, as columns.

        They are source and destination vertex, their names, kind, bandwidth, latency, payload bytes, bytes with
        protocol overhead, busy share so far, and the total time of transfers lost to contention at the link (it may
        exceed the time of the run; 0 where transfers only occupy links, since it is unknown).

        Args:
            payload: Payload bytes by link; by default the result of `payload`.

        Returns:
            One list for each column, with one entry for each link.
        """
        now, name = self.env.now, self.network.topology.vertex_name
        entries = list(self._links())
        payload = self.payload() if payload is None else payload
        used = [entry for entry in entries if entry[0] in payload or entry[1] or entry[2]]
        links = [link for _, _, _, link in used]
        return {
            "src": [link.spec.src for link in links],
            "dst": [link.spec.dst for link in links],
            "from": [name(link.spec.src) for link in links],
            "to": [name(link.spec.dst) for link in links],
            "kind": [link.spec.kind for link in links],
            "bytes_per_s": [link.spec.bytes_per_s for link in links],
            "latency_s": [link.spec.latency_s for link in links],
            "nbytes": [payload.get(number, 0.0) for number, _, _, _ in used],
            "protocol_nbytes": [nbytes for _, nbytes, _, _ in used],
            "utilization": [(link.busy_before(now) + busy_s) / now if now else 0.0 for _, _, busy_s, link in used],
            "queued_s": [link.queued_s for link in links],
        }

    def _links(self) -> Iterator[tuple[int, float, float, Link]]:
        """Every link: its number, the bytes that it carried, and the busy time of transfers that only occupied it."""
        occupying = self.network.occupancy.carried()
        for number, link in enumerate(self.network.links):
            nbytes, busy_s = occupying.get(number, (0.0, 0.0))
            yield number, link.nbytes + nbytes, busy_s, link

    def payload(self, traffic: Mapping[str, Sequence[Any]] | None = None) -> dict[int, float]:
        """Payload bytes by link, without protocol overhead; empty without traffic.

        Args:
            traffic: A communication graph; by default the graph of the whole network.
        """
        if not any(nbytes or busy_s for _, nbytes, busy_s, _ in self._links()):
            return {}
        return payload_bytes(self.traffic() if traffic is None else traffic, self.network.way)

    def traffic(self) -> dict[str, list[Any]]:
        """The communication graph: bytes sent from GPU to GPU, as columns, one row per pair that sent anything."""
        return self.network.traffic.columns()

    def gpu_statistics(self, payload: Mapping[int, float] | None = None) -> dict[str, list[Any]]:
        """Every GPU: busy share, payload bytes sent and received over its links, peak memory, as columns.

        Forwarded bytes count as sent and received.

        Args:
            payload: As for `link_statistics`.

        Returns:
            One list for each column, with one entry for each GPU.
        """
        sent, received = [0.0] * len(self.devices), [0.0] * len(self.devices)
        links = self.network.links  # once, as they are brought up to this moment each time
        for number, nbytes in (self.payload() if payload is None else payload).items():
            spec = links[number].spec
            if spec.src < len(sent):
                sent[spec.src] += nbytes
            if spec.dst < len(received):
                received[spec.dst] += nbytes
        return {
            "gpu": [device.index for device in self.devices],
            "utilization": self.utilization(),
            "sent_bytes": sent,
            "received_bytes": received,
            "peak_memory_bytes": [device.memory.most_bytes for device in self.devices],
        }

    def _check_gpu(self, gpu: int) -> None:
        if not 0 <= gpu < len(self.devices):
            raise self._no_such_gpu(gpu)

    def _no_such_gpu(self, gpu: int) -> UsageError:
        return UsageError(f"the platform has GPUs 0 to {len(self.devices) - 1}, not {gpu!r}")


def _check_amount(what: str, amount: float) -> None:
    if not 0.0 <= amount < math.inf:
        raise UsageError(f"{what} must be finite and not negative, not {amount!r}")


_SATURATED_ROWS = 8192.0
"""A task without a shape is assumed to reach the plateau of the efficiency curve."""
