"""Slow and obvious models of the platform in plain SimPy, which the fast ones must equal bit by bit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import simpy

from simsys.platform.timeline import Timeline
from simsys.platform.topology import LinkSpec, Topology

Timelines = Mapping[int, Timeline[LinkSpec]]
K = TypeVar("K")


def queue_ends(plan: Iterable[tuple[float, float]]) -> list[float]:
    """Ends of services (arrival, duration) at one `simpy.Resource` of capacity 1."""
    env = simpy.Environment()
    server = simpy.Resource(env, capacity=1)
    ends: dict[int, float] = {}

    def customer(index: int, arrival_s: float, service_s: float) -> Iterator[Any]:
        yield env.timeout(arrival_s)
        with server.request() as turn:
            yield turn
            yield env.timeout(service_s)
        ends[index] = env.now

    for index, (arrival_s, service_s) in enumerate(plan):
        env.process(customer(index, arrival_s, service_s))
    env.run()
    return [ends[index] for index in sorted(ends)]


@dataclass(frozen=True)
class Message:
    """A transfer to be made: when, from where to where, and how large."""

    start_s: float
    src: int
    dst: int
    nbytes: float


@dataclass(frozen=True)
class Rounds:
    """A collective: when it starts, and its steps as (pairs, bytes on each, how often, pause after each time)."""

    start_s: float
    steps: Sequence[tuple[Sequence[tuple[int, int]], float, int, float]]


@dataclass(frozen=True)
class Visit:
    """A process that has a server for itself: from when it queues, which one, and for how long it keeps it."""

    start_s: float
    server: int
    seconds: float


class NaiveNetwork(ABC):
    """A `simpy.Resource` per link and a process per hop; collectives are rounds of transfers, in lockstep."""

    def __init__(self, topology: Topology, timelines: Timelines | None = None) -> None:
        self.env = simpy.Environment()
        self.topology = topology
        self.timelines = timelines or {}
        self.resources = [simpy.Resource(self.env, capacity=1) for _ in topology.links]

    def link_now(self, index: int) -> LinkSpec:
        """What a link can do for a transfer that gets its turn now."""
        timeline = self.timelines.get(index)
        return self.topology.links[index] if timeline is None else timeline.at(self.env.now)

    def arrivals(self, plan: Sequence[Message | Rounds | Visit]) -> list[float]:
        """When the last byte of each message, and each collective, has arrived, and when each visit of a link ends."""
        ends: dict[int, float] = {}
        for index, entry in enumerate(plan):
            self.env.process(self._entry(index, entry, ends))
        self.env.run()
        return [ends[index] for index in range(len(plan))]

    def _entry(self, index: int, entry: Message | Rounds | Visit, ends: dict[int, float]) -> Iterator[Any]:
        yield self.env.timeout(entry.start_s)
        if isinstance(entry, Visit):
            with self.resources[entry.server].request() as turn:
                yield turn
                yield self.env.timeout(entry.seconds)
            ends[index] = self.env.now
            return
        rounds = entry.steps if isinstance(entry, Rounds) else [([(entry.src, entry.dst)], entry.nbytes, 1, 0.0)]
        for pairs, nbytes, repeat, pause_s in rounds:
            for _ in range(repeat):
                yield self.env.all_of([self._transfer(src, dst, nbytes) for src, dst in pairs])
                if pause_s:
                    yield self.env.timeout(pause_s)
        ends[index] = self.env.now

    def _transfer(self, src: int, dst: int, nbytes: float) -> simpy.Event:
        arrived = self.env.event()
        self.env.process(self._carry(self.topology.route(src, dst), nbytes, arrived))
        return arrived

    @abstractmethod
    def _carry(self, route: Sequence[int], nbytes: float, arrived: simpy.Event) -> Iterator[Any]:
        """Bring a transfer over all links of its route."""


class NaiveCutThrough(NaiveNetwork):
    """A hop waits for its link, sends its head ahead (one latency), and holds the link until the bytes are serialised.

    The tail leaves then, but not before it has come in from the link before.
    """

    def _carry(self, route: Sequence[int], nbytes: float, arrived: simpy.Event) -> Iterator[Any]:
        tail = self.env.timeout(0.0)  # at the source, all bytes are there
        yield from self._hop(route, nbytes, tail, arrived)

    def _hop(self, route: Sequence[int], nbytes: float, tail_in: simpy.Event, arrived: simpy.Event) -> Iterator[Any]:
        with self.resources[route[0]].request() as turn:
            yield turn
            link = self.link_now(route[0])
            tail_out = arrived if len(route) == 1 else self.env.event()
            if len(route) > 1:
                self.env.process(self._head(link.latency_s, route[1:], nbytes, tail_out, arrived))
            yield self.env.timeout(nbytes / link.bytes_per_s)
        yield tail_in
        yield self.env.timeout(link.latency_s)
        tail_out.succeed()

    def _head(
        self, latency_s: float, route: Sequence[int], nbytes: float, tail_in: simpy.Event, arrived: simpy.Event
    ) -> Iterator[Any]:
        yield self.env.timeout(latency_s)
        yield from self._hop(route, nbytes, tail_in, arrived)


class NaiveStoreAndForward(NaiveNetwork):
    """Link after link: waits for its turn, is serialised, travels one latency."""

    def _carry(self, route: Sequence[int], nbytes: float, arrived: simpy.Event) -> Iterator[Any]:
        for index in route:
            with self.resources[index].request() as turn:
                yield turn
                link = self.link_now(index)
                yield self.env.timeout(nbytes / link.bytes_per_s)
            yield self.env.timeout(link.latency_s)
        arrived.succeed()


class NaiveFairNetwork:
    """Every rate is found anew at every arrival and departure, by filling all links at the same pace."""

    def __init__(self, topology: Topology, timelines: Timelines | None = None) -> None:
        self.links = list(topology.links)
        self.route = topology.route
        self.timelines = timelines or {}

    def arrivals(self, plan: Sequence[Message | Rounds]) -> list[float]:
        """When the last byte of each message, and each collective, has arrived."""
        entries = [_Entry(entry) for entry in plan]
        left: dict[tuple[int, int], float] = {}  # by entry and transfer
        now = 0.0
        changes = sorted({time_s for each in self.timelines.values() for time_s in each.changes_s})
        while left or any(entry.waits for entry in entries):
            self._renew(now)
            rates = self.rates({key: self.route(*entries[key[0]].pairs[key[1]]) for key in left})
            next_end = min((now + left[key] / rates[key] for key in left), default=float("inf"))
            next_start = min((entry.next_s for entry in entries if entry.waits), default=float("inf"))
            next_change = next((time_s for time_s in changes if time_s > now), float("inf"))
            then = min(next_end, next_start, next_change)
            for key in list(left):
                if now + left[key] / rates[key] <= then * (1 + 1e-14):
                    del left[key]
                    self._renew(then)
                    route = self.route(*entries[key[0]].pairs[key[1]])
                    entries[key[0]].arrived(then + sum(self.links[link].latency_s for link in route))
                else:
                    left[key] -= rates[key] * (then - now)
            for index, entry in enumerate(entries):
                if entry.waits and entry.next_s <= then * (1 + 1e-15):
                    left |= {(index, transfer): entry.nbytes for transfer in range(entry.start())}
            now = then
        return [entry.next_s for entry in entries]

    def _renew(self, now: float) -> None:
        """What links can do now."""
        for index, timeline in self.timelines.items():
            self.links[index] = timeline.at(now)

    def rates(self, routes: Mapping[K, Sequence[int]]) -> dict[K, float]:
        """Max-min fair rates: again and again, the fullest link decides for the flows on it that have no rate yet."""
        rates: dict[int, float] = {}
        while len(rates) < len(routes):
            shares = {}
            for link, spec in enumerate(self.links):
                on_it = [flow for flow, route in routes.items() if link in route]
                waiting = [flow for flow in on_it if flow not in rates]
                if waiting:
                    taken = sum(rates[flow] for flow in on_it if flow in rates)
                    shares[link] = (spec.bytes_per_s - taken) / len(waiting)
            fullest = min(shares, key=lambda link: shares[link])
            for flow, route in routes.items():
                if fullest in route and flow not in rates:
                    rates[flow] = shares[fullest]
        return rates


class _Entry:
    """How far a message or a collective is: the rounds that are left, each with its pairs, bytes, and pause."""

    def __init__(self, entry: Message | Rounds) -> None:
        steps = entry.steps if isinstance(entry, Rounds) else [([(entry.src, entry.dst)], entry.nbytes, 1, 0.0)]
        self._rounds = [(pairs, nbytes, pause_s) for pairs, nbytes, repeat, pause_s in steps for _ in range(repeat)]
        self.next_s = entry.start_s
        """When the next round starts, or all are over."""
        self.waits = True
        """Whether the next round has still to start."""
        self.pairs: Sequence[tuple[int, int]] = ()
        self.nbytes = 0.0
        self._missing = 0

    def start(self) -> int:
        """Begin the next round; return its number of transfers."""
        (self.pairs, self.nbytes, self._pause_s), self.waits = self._rounds.pop(0), False
        self._missing = len(self.pairs)
        return self._missing

    def arrived(self, end_s: float) -> None:
        self.next_s = max(self.next_s, end_s)
        self._missing -= 1
        if not self._missing:
            self.next_s += self._pause_s
            self.waits = bool(self._rounds)
