"""Transfers over the links of a topology: the interface of all contention models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Generic, Self, TypeVar

import simpy
from simpy.events import Event

from simsys.errors import UsageError
from simsys.platform.ecmp_collisions import Collision, collision
from simsys.platform.environment import Environment
from simsys.platform.events import At
from simsys.platform.link import Link
from simsys.platform.link_schedule import LinkSchedule, Prepared, Step
from simsys.platform.link_spec import LinkSpec
from simsys.platform.occupancy import Occupancy
from simsys.platform.routing import Hop, Way, link_loads
from simsys.platform.timeline import Timeline
from simsys.platform.topology import Topology
from simsys.platform.traffic import Traffic
from simsys.platform.turns import Sharing
from simsys.sums import ordered_sum

LinkT = TypeVar("LinkT", bound=Link)

Pairs = Sequence[tuple[int, int]]
"""Source and destination GPU of transfers."""

LockStep = tuple[Pairs, float, int, float]
"""A step's transfers, the bytes of each, how often it is repeated, and the pause after each time in seconds."""


class Network(ABC, Generic[LinkT, Prepared]):
    """The links of a topology, their routes, and transfers over them; one subclass per model of contention.

    Args:
        env: The environment.
        topology: Vertices and links, with their initial specifications.
        timelines: Varying links with their specifications over time, by index.
    """

    contention: ClassVar[str]
    """How links are shared, for results."""
    in_turn: ClassVar[bool] = True
    """Whether links serve transfers in turn; else they share their bandwidth."""

    def __init__(
        self, env: simpy.Environment, topology: Topology, timelines: Mapping[int, Timeline[LinkSpec]] | None = None
    ) -> None:
        self.env = env
        self.topology = topology
        self.traffic = Traffic()
        """Bytes from GPU to GPU."""
        self.occupancy = Occupancy(env, self._rate_of, in_turn=self.in_turn)
        """How transfers that are not simulated step by step slow each other."""
        self._links = [self._make_link(spec) for spec in topology.links]
        self.sharing = Sharing(env)
        """Whether processes of the user's own may request links."""
        for link in self._links:
            link.sharing = self.sharing
        self._timelines = timelines or {}
        for index, each in self._timelines.items():
            self._links[index].timeline = each
        self.changes_s = sorted({time_s for each in self._timelines.values() for time_s in each.changes_s})
        """When some link changes."""
        self._prepared: dict[tuple[tuple[int, int], ...], Prepared] = {}
        self._hops_s: dict[int, tuple[Hop, float]] = {}  # by identity
        self._steady: dict[int, Self] = {}
        self._copies: dict[int, Self] = {}

    @staticmethod
    @abstractmethod
    def _make_link(spec: LinkSpec) -> LinkT:
        """A link as this model needs it."""

    @abstractmethod
    def begin(self, transfers: Prepared, nbytes: float, pause_s: float = 0.0) -> Event:
        """Start transfers of `nbytes` each; the event fires `pause_s` after all have arrived."""

    @abstractmethod
    def step_seconds(self, transfers: Prepared, nbytes: float, time_s: float = 0.0) -> float:
        """Time from the start of transfers of `nbytes` each to the last arrival, if nothing else uses their links.

        Args:
            transfers: The transfers.
            nbytes: Bytes of each.
            time_s: When they start; varying links are assumed constant from then on.
        """

    @abstractmethod
    def _prepare(self, pairs: Pairs) -> Prepared:
        """Make transfers ready, in this order where links serve in turn."""

    @property
    def links(self) -> Sequence[LinkT]:
        """All links, in the order of the topology, with their traffic up to now."""
        return self._links

    @property
    def links_at_rest(self) -> Sequence[LinkT]:
        """All links, without the traffic of collectives in progress, which continue undisturbed."""
        return self.links

    def link(self, number: int) -> LinkT:
        """A link by its number, without the bytes of collectives in progress."""
        return self._links[number]

    def counters(self) -> list[float]:
        """Traffic of every link so far, in bytes and busy seconds, and waiting time of transfers."""
        return [figure for link in self.links for figure in (link.nbytes, link.busy_s, link.queued_s)]

    def repeat(self, counters: Sequence[float], times: int) -> None:
        """Count a transfer again on every link, a number of times."""
        for place, link in enumerate(self._links):
            link.nbytes += times * counters[3 * place]
            link.busy_s += times * counters[3 * place + 1]
            link.queued_s += times * counters[3 * place + 2]

    def _rate_of(self, link: int) -> float:
        return self._links[link].spec_at(self.env._now).bytes_per_s

    def node_of(self, gpu: int) -> int:
        """The node that a GPU is in."""
        return gpu // self.topology.node_size

    def way(self, src: int, dst: int) -> Way:
        """The links from GPU `src` to GPU `dst`, hop by hop, as their numbers and shares of the bytes."""
        return self.topology.way(src, dst)

    def prepare(self, pairs: Pairs) -> Prepared:
        """Make transfers between pairs of GPUs ready, cached."""
        key = tuple(pairs)
        found = self._prepared.get(key)
        if found is None:
            found = self._prepared[key] = self._prepare(key)
        return found

    def transfer(self, src: int, dst: int, nbytes: float) -> Event:
        """Send `nbytes` from GPU `src` to GPU `dst`; the event fires when the last byte has arrived."""
        self.traffic.between(src, dst).nbytes += nbytes
        return self.carry([(src, dst)], nbytes)

    def carry(self, pairs: Pairs, nbytes: float) -> Event:
        """Send `nbytes` between each of `pairs` at once, without counting them in the communication graph."""
        if not nbytes:
            now = self.env.now
            return At(self.env, now + self.steady(now).idle_path(pairs)[0])
        return self.begin(self.prepare(pairs), nbytes)

    def schedule(self, steps: Iterable[LockStep], *, joined: bool = False) -> LinkSchedule[Prepared]:
        """Prepare steps in lockstep.

        Args:
            steps: In order.
            joined: Whether equal steps that follow one another may be carried out as one, where that is as good.
        """
        return LinkSchedule(self.env, self._steps(steps), self.begin)

    def _steps(self, steps: Iterable[LockStep]) -> list[Step[Prepared]]:
        return [Step(self.prepare(pairs), nbytes, repeat, pause_s) for pairs, nbytes, repeat, pause_s in steps]

    def epoch(self, time_s: float) -> int:
        """Number of changes of links by a time."""
        return bisect_right(self.changes_s, time_s) if self.changes_s else 0

    def steady(self, time_s: float) -> Self:
        """A network with constant links in the state of a time; itself for the initial state."""
        epoch = self.epoch(time_s)
        if not epoch:
            return self
        found = self._steady.get(epoch)
        if found is None:
            found = self._steady[epoch] = type(self)(self.env, self.topology)
            found._links = [self._make_link(link.spec_at(time_s)) for link in self._links]
        return found

    def idle_copy(self, time_s: float) -> Self:
        """An idle network with its own clock and constant links in the state of a time."""
        epoch = self.epoch(time_s)
        found = self._copies.get(epoch)
        if found is None:
            found = self._copies[epoch] = type(self)(Environment(), self.topology)
            found._links = [self._make_link(link.spec_at(time_s)) for link in self._links]
        return found

    def ends_together(self, groups: Sequence[Pairs], nbytes: float, time_s: float = 0.0) -> list[float]:
        """Durations of the transfers of each group if all groups start together on idle links.

        Args:
            groups: Source and destination of the transfers of each group.
            nbytes: Bytes of each transfer.
            time_s: When they start; varying links are assumed constant from then on.

        Raises:
            UsageError: Links serve in turn, so no two groups that share links end together.
        """
        raise UsageError(f"links with contention: {self.contention} serve in turn, so groups do not end together")

    def seconds_together(self, collectives: Sequence[Sequence[LockStep]], time_s: float = 0.0) -> float:
        """Duration of collectives that start together on idle links, until the last one ends.

        Args:
            collectives: The steps of each.
            time_s: When they start; varying links are assumed constant from then on.
        """
        copy = self.idle_copy(time_s)
        started_s = copy.env.now
        for steps in collectives:
            copy.schedule(steps).start(lambda _: None)
        copy.env.run()
        return copy.env.now - started_s

    def link_name(self, link: int) -> str:
        """The name of a link, by its number."""
        return self.topology.link_name(link)

    def bytes_per_s(self, link: int) -> float:
        """The bandwidth of a link at the beginning, by its number."""
        return self._links[link].spec.bytes_per_s

    def collision(self, pairs: Pairs) -> Collision | None:
        """Whether hashes put transfers that start together on the same links although other paths are free."""
        return collision(self.topology, pairs)

    def figures(self, link: int) -> tuple[object, ...]:
        """Properties of a link that determine the time of transfers: bandwidth, latency, changes."""
        found = self._links[link]
        return found.spec.bytes_per_s, found.spec.latency_s, id(found.timeline) if found.timeline is not None else 0

    def signature(self, gpus: Sequence[int]) -> tuple[object, ...]:
        """Equal for groups of GPUs with equal times of any transfers among themselves.

        The links between each two GPUs of the group, numbered in the order of their appearance, with their figures.
        """
        numbers: dict[int, int] = {}
        figures: list[object] = []
        for src in gpus:
            for dst in gpus:
                for hop in self.way(src, dst):
                    for link, share in hop:
                        if link not in numbers:
                            numbers[link] = len(numbers)
                            figures.append(self.figures(link))
                        figures.append((numbers[link], share))
                    figures.append("hop")
        return tuple(figures)

    def idle_path(self, pairs: Iterable[tuple[int, int]]) -> tuple[float, float]:
        """Latency in seconds and bytes/s of the slowest transfer when all `pairs` transfer at once on idle links.

        Both bound `step_seconds` and are its terms where all routes are alike. The links are as they are at the
        beginning; `steady` answers for another time.
        """
        ways = [self.way(src, dst) for src, dst in pairs]
        latency_s = max(map(self.latency_s, ways), default=0.0)
        return latency_s, self._slowest(ways, link_loads(ways))

    def idle_paths(self, pairs: Iterable[tuple[int, int]]) -> set[tuple[float, float]]:
        """Latency in seconds and bytes/s of each transfer; together they give `idle_path`."""
        ways = [self.way(src, dst) for src, dst in pairs]
        load = link_loads(ways)
        return {(self.latency_s(way), self._slowest([way], load)) for way in dict.fromkeys(ways)}

    def idle_shares(self, pairs: Pairs) -> tuple[float, dict[int, float]]:
        """Bytes/s of the slowest transfer of `idle_path`, and what all `pairs` need of each link until it is through.

        The need is a mean share of the bandwidth of the link, for transfers of equal size that start together.
        """
        load = link_loads([self.way(src, dst) for src, dst in pairs])
        bytes_per_s = {link: self._links[link].spec.bytes_per_s for link in load}
        slowest = min([bytes_per_s[link] / share for link, share in load.items()], default=float("inf"))
        return slowest, {link: min(1.0, slowest * share / bytes_per_s[link]) for link, share in load.items()}

    def latency_s(self, way: Way) -> float:
        """Initial latency of a path, over the slowest of parallel links."""
        links = self._links
        return ordered_sum(
            [
                links[hop[0][0]].spec.latency_s
                if len(hop) == 1  # as most are, of millions
                else self._slowest_s(hop)
                for hop in way
            ]
        )

    def _slowest_s(self, hop: Hop) -> float:
        """The longest latency of parallel links, which many ways share."""
        if id(hop) not in self._hops_s:  # kept with the hop, so that its identity stays its own
            self._hops_s[id(hop)] = hop, max([self._links[link].spec.latency_s for link, _ in hop])
        return self._hops_s[id(hop)][1]

    def _slowest(self, ways: Sequence[Way], load: Mapping[int, float]) -> float:
        """Bytes/s of the slowest of some transfers, with a number of bytes on each link per byte of each transfer."""
        hops = {id(hop): hop for way in ways for hop in way}
        used = dict.fromkeys(link for hop in hops.values() for link, _ in hop)
        return min([self._links[link].spec.bytes_per_s / load[link] for link in used], default=float("inf"))
