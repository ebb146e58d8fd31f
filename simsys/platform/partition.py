"""The part of a cluster that a job has: GPUs numbered from 0, on links shared with other jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from simpy.events import Event

from simsys.platform.device import Begun, Device, Seconds
from simsys.platform.ecmp_collisions import Collision
from simsys.platform.link_schedule import LinkSchedule
from simsys.platform.network import LockStep, Network, Pairs
from simsys.platform.platform import Platform
from simsys.platform.routing import Way
from simsys.platform.traffic import Traffic


class NetworkPartition:
    """The network between some GPUs, with the methods of `Network` that executors use.

    Args:
        whole: The network of the cluster.
        gpus: Their numbers in the cluster.
    """

    def __init__(self, whole: Network[Any, Any], gpus: Sequence[int]) -> None:
        self._whole, self._gpus = whole, gpus
        self.env, self.contention, self.occupancy = whole.env, whole.contention, whole.occupancy
        self.in_turn, self.sharing = whole.in_turn, whole.sharing
        self.traffic = Traffic()
        """Bytes from GPU to GPU of this part."""
        self._links: set[int] = set()

    @property
    def changes_s(self) -> Sequence[float]:
        """As `Network.changes_s`."""
        return self._whole.changes_s

    def epoch(self, time_s: float) -> int:
        """As `Network.epoch`."""
        return self._whole.epoch(time_s)

    def steady(self, time_s: float) -> NetworkPartition:
        """As `Network.steady`."""
        found = self._whole.steady(time_s)
        return self if found is self._whole else NetworkPartition(found, self._gpus)

    def node_of(self, gpu: int) -> int:
        """The node that a GPU is in, by its number in the cluster."""
        return self._whole.node_of(self._gpus[gpu])

    def way(self, src: int, dst: int) -> Way:
        """As `Network.way`."""
        return self._whole.way(self._gpus[src], self._gpus[dst])

    def prepare(self, pairs: Pairs) -> Any:
        """As `Network.prepare`."""
        return self._whole.prepare(self._used(pairs))

    def step_seconds(self, transfers: Any, nbytes: float, time_s: float = 0.0) -> float:
        """As `Network.step_seconds`."""
        return self._whole.step_seconds(transfers, nbytes, time_s)

    def ends_together(self, groups: Sequence[Pairs], nbytes: float, time_s: float = 0.0) -> list[float]:
        """As `Network.ends_together`."""
        return self._whole.ends_together([self._placed(pairs) for pairs in groups], nbytes, time_s)

    def seconds_together(self, collectives: Sequence[Sequence[LockStep]], time_s: float = 0.0) -> float:
        """As `Network.seconds_together`."""
        return self._whole.seconds_together([self._placed_steps(steps) for steps in collectives], time_s)

    def bytes_per_s(self, link: int) -> float:
        """As `Network.bytes_per_s`."""
        return self._whole.bytes_per_s(link)

    def link_name(self, link: int) -> str:
        """As `Network.link_name`."""
        return self._whole.link_name(link)

    def collision(self, pairs: Pairs) -> Collision | None:
        """As `Network.collision`."""
        return self._whole.collision(self._placed(pairs))

    def figures(self, link: int) -> tuple[object, ...]:
        """As `Network.figures`."""
        return self._whole.figures(link)

    def signature(self, gpus: Sequence[int]) -> tuple[object, ...]:
        """As `Network.signature`."""
        return self._whole.signature([self._gpus[gpu] for gpu in gpus])

    def idle_path(self, pairs: Iterable[tuple[int, int]]) -> tuple[float, float]:
        """As `Network.idle_path`."""
        return self._whole.idle_path(self._placed(pairs))

    def idle_shares(self, pairs: Pairs) -> tuple[float, dict[int, float]]:
        """As `Network.idle_shares`."""
        return self._whole.idle_shares(self._placed(pairs))

    def idle_paths(self, pairs: Iterable[tuple[int, int]]) -> set[tuple[float, float]]:
        """As `Network.idle_paths`."""
        return self._whole.idle_paths(self._placed(pairs))

    def transfer(self, src: int, dst: int, nbytes: float) -> Event:
        """As `Network.transfer`."""
        self.traffic.between(src, dst).nbytes += nbytes
        return self.carry([(src, dst)], nbytes)

    def begin(self, transfers: Any, nbytes: float) -> Event:
        """As `Network.begin`."""
        return self._whole.begin(transfers, nbytes)

    def carry(self, pairs: Pairs, nbytes: float) -> Event:
        """As `Network.carry`."""
        return self._whole.carry(self._used(pairs), nbytes)

    def schedule(self, steps: Iterable[LockStep], *, joined: bool = False) -> LinkSchedule[Any]:
        """As `Network.schedule`."""
        placed = [(self._used(pairs), nbytes, repeat, pause_s) for pairs, nbytes, repeat, pause_s in steps]
        return self._whole.schedule(placed, joined=joined)

    def _placed_steps(self, steps: Iterable[LockStep]) -> list[LockStep]:
        return [(self._placed(pairs), nbytes, repeat, pause_s) for pairs, nbytes, repeat, pause_s in steps]

    def counters(self) -> list[float]:
        """As `Network.counters` between collectives of the job; zero for links that it does not use."""
        figures = [0.0] * (3 * len(self._whole.links_at_rest))
        for number in self._links:
            link = self._whole.link(number)
            figures[3 * number : 3 * number + 3] = link.nbytes, link.busy_s, link.queued_s
        return figures

    def repeat(self, counters: Sequence[float], times: int) -> None:
        """As `Network.repeat`."""
        self._whole.repeat(counters, times)

    def _used(self, pairs: Iterable[tuple[int, int]]) -> Pairs:
        """Transfers by GPUs of the cluster; their links belong to the job from now on."""
        placed = self._placed(pairs)
        for src, dst in placed:
            self._links.update(link for hop in self._whole.way(src, dst) for link, _ in hop)
        return placed

    def _placed(self, pairs: Iterable[tuple[int, int]]) -> Pairs:
        return [(self._gpus[src], self._gpus[dst]) for src, dst in pairs]


class PlatformPartition:
    """Some GPUs of a platform and the network between them, with the methods of `Platform` that executors use.

    Args:
        whole: The platform of the cluster.
        gpus: Numbers of the GPUs in it, in the order of the ranks.
    """

    def __init__(self, whole: Platform, gpus: Sequence[int]) -> None:
        self._whole, self._gpus = whole, gpus
        self.env, self.epoch, self.next_change_s = whole.env, whole.epoch, whole.next_change_s
        self.devices: list[Device] = [whole.devices[gpu] for gpu in gpus]
        self.network = NetworkPartition(whole.network, gpus)

    def submit_computation_task(self, gpu: int, seconds: Seconds, begun: Begun | None = None) -> Event:
        """As `Platform.submit_computation_task`, by the number of the GPU in this part."""
        return self._whole.submit_computation_task(self._gpus[gpu], seconds, begun)

    def reserve_computation(self, gpu: int, seconds: Seconds, begun: Begun | None = None) -> None:
        """As `Platform.reserve_computation`, by the number of the GPU in this part."""
        self._whole.reserve_computation(self._gpus[gpu], seconds, begun)

    def submit_network_transfer_task(self, src: int, dst: int, nbytes: float) -> Event:
        """As `Platform.submit_network_transfer_task`, by the numbers of the GPUs in this part."""
        return self.network.transfer(src, dst, nbytes)


Hardware = Platform | PlatformPartition
"""The hardware of an executor."""
