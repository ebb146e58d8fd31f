"""Transfers over the links of a topology: what every model of contention offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import ClassVar, Generic, Self

from simpy.events import Event

from simsys.platform.environment import At, Environment
from simsys.platform.link import Link
from simsys.platform.occupancy import Occupancy
from simsys.platform.schedule import LinkT, Route, Schedule, Step
from simsys.platform.timeline import Timeline
from simsys.platform.topology import LinkSpec, Topology
from simsys.platform.traffic import Traffic

Pairs = Sequence[tuple[int, int]]
"""Source and destination GPU of transfers."""

LockStep = tuple[Pairs, float, int, float]
"""A step's transfers, the bytes of each, how often it is repeated, and the pause after each time in seconds."""


class Network(ABC, Generic[LinkT]):
    """The links of a topology, their routes, and transfers over them; one subclass per model of contention.

    Args:
        env: The environment.
        topology: Vertices and links, with what these can do at the beginning.
        timelines: Links that change, with what they can do at all times, by index.
    """

    contention: ClassVar[str]
    """How links are shared, for results."""
    in_turn: ClassVar[bool] = True
    """Whether links serve transfers in turn; else they share their bandwidth."""

    def __init__(
        self, env: Environment, topology: Topology, timelines: Mapping[int, Timeline[LinkSpec]] | None = None
    ) -> None:
        self.env = env
        self.topology = topology
        self.traffic = Traffic()
        """Bytes from GPU to GPU."""
        self.occupancy = Occupancy(env, self._rate_of, in_turn=self.in_turn)
        """How transfers that are not simulated step by step slow each other."""
        self._links = [self._make_link(spec) for spec in topology.links]
        for index, each in (timelines or {}).items():
            self._links[index].timeline = each
        self.changes_s = sorted({time_s for each in (timelines or {}).values() for time_s in each.changes_s})
        """When some link changes."""
        self._routes: dict[tuple[int, int], Route[LinkT]] = {}
        self._steady: dict[int, Self] = {}

    @staticmethod
    @abstractmethod
    def _make_link(spec: LinkSpec) -> LinkT:
        """A link as this model needs it."""

    @abstractmethod
    def transfer_all(self, routes: Iterable[Route[LinkT]], nbytes: float, pause_s: float = 0.0) -> Event:
        """Send `nbytes` over each of `routes` at once, in this order; fires `pause_s` after all have arrived."""

    @property
    def links(self) -> Sequence[LinkT]:
        """All links, in the order of the topology, with what they carried up to now."""
        return self._links

    def _rate_of(self, link: int) -> float:
        return self._links[link].spec_at(self.env._now).bytes_per_s

    def node_of(self, gpu: int) -> int:
        """The node that a GPU is in."""
        return gpu // self.topology.node_size

    def path(self, src: int, dst: int) -> Sequence[int]:
        """The numbers of the links from GPU `src` to GPU `dst`."""
        return self.topology.route(src, dst)

    def route(self, src: int, dst: int) -> Route[LinkT]:
        """The links from GPU `src` to GPU `dst`, cached."""
        key = src, dst
        found = self._routes.get(key)
        if found is None:
            found = self._routes[key] = tuple(self._links[index] for index in self.topology.route(src, dst))
        return found

    def transfer(self, src: int, dst: int, nbytes: float) -> Event:
        """Send `nbytes` from GPU `src` to GPU `dst`; the event fires when the last byte has arrived."""
        self.traffic.between(src, dst).nbytes += nbytes
        return self.carry(src, dst, nbytes)

    def carry(self, src: int, dst: int, nbytes: float) -> Event:
        """The same, without counting it in the communication graph."""
        route = self.route(src, dst)
        if not route or not nbytes:
            now = self.env.now
            return At(self.env, now + sum(link.spec_at(now).latency_s for link in route))
        return self.transfer_all((route,), nbytes)

    def schedule(self, steps: Iterable[LockStep]) -> Schedule[LinkT]:
        """Prepare steps in lockstep."""
        return Schedule(self.env, self._steps(steps), self.transfer_all)

    def _steps(self, steps: Iterable[LockStep]) -> list[Step[LinkT]]:
        return [
            Step([self.route(*pair) for pair in pairs], nbytes, repeat, pause_s)
            for pairs, nbytes, repeat, pause_s in steps
        ]

    @cached_property
    def uneven(self) -> bool:
        """Whether links of one kind differ, so that equal groups of ranks at different places may not be equal."""
        found = {(link.spec.kind, link.spec.bytes_per_s, link.spec.latency_s) for link in self._links}
        return bool(self.changes_s) or len(found) > len({kind for kind, _, _ in found})

    def epoch(self, time_s: float) -> int:
        """How many times links have changed by a time."""
        return bisect_right(self.changes_s, time_s) if self.changes_s else 0

    def steady(self, time_s: float) -> Self:
        """A network whose links are always as those of this one are at a time; itself if that is the beginning."""
        epoch = self.epoch(time_s)
        if not epoch:
            return self
        found = self._steady.get(epoch)
        if found is None:
            found = self._steady[epoch] = type(self)(self.env, self.topology)
            found._links = [self._make_link(link.spec_at(time_s)) for link in self._links]
        return found

    def idle_path(self, pairs: Iterable[tuple[int, int]]) -> tuple[float, float]:
        """Latency in seconds and bytes/s of the slowest transfer when all `pairs` transfer at once on idle links.

        The links are as they are at the beginning; `steady` answers for another time.
        """
        routes = [self.route(src, dst) for src, dst in pairs]
        load = _load(routes)
        latencies_s = {link: link.spec.latency_s for link in load}
        latency_s = max((sum(map(latencies_s.__getitem__, route), 0.0) for route in routes), default=0.0)
        return latency_s, self._slowest(routes, load)

    def idle_paths(self, pairs: Iterable[tuple[int, int]]) -> set[tuple[float, float]]:
        """Latency in seconds and bytes/s of each of these transfers, which only together are those of `idle_path`."""
        routes = [self.route(src, dst) for src, dst in pairs]
        load = _load(routes)
        return {
            (sum((link.spec.latency_s for link in route), 0.0), self._slowest([route], {x: load[x] for x in route}))
            for route in dict.fromkeys(map(tuple, routes))
        }

    def _slowest(self, routes: Sequence[Route[LinkT]], load: Mapping[Link, int]) -> float:
        """Bytes/s of the slowest of transfers over links each of which so many equal ones want at once.

        Links that k of them share give each a k-th of their rate.
        """
        return min((link.spec.bytes_per_s / transfers for link, transfers in load.items()), default=float("inf"))


def _load(routes: Iterable[Iterable[Link]]) -> dict[Link, int]:
    """How many of the routes each link is on."""
    load: dict[Link, int] = {}
    for route in routes:
        for link in route:
            load[link] = load.get(link, 0) + 1
    return load
