"""Slow and obvious models of the platform in plain SimPy, which the fast ones must equal bit by bit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import simpy

from simsys.platform.topology import Topology


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


class CutThroughNetwork:
    """A `simpy.Resource` per link and a process per hop.

    A hop waits for its link, sends its head ahead (one latency), and holds the link until the bytes are
    serialised. The tail leaves then, but not before it has come in from the link before.
    """

    def __init__(self, topology: Topology) -> None:
        self.env = simpy.Environment()
        self.topology = topology
        self.resources = [simpy.Resource(self.env, capacity=1) for _ in topology.links]

    def arrivals(self, messages: Sequence[Message]) -> list[float]:
        """When the last byte of each message arrives."""
        ends: dict[int, float] = {}
        for index, message in enumerate(messages):
            self.env.process(self._message(index, message, ends))
        self.env.run()
        return [ends[index] for index in range(len(messages))]

    def _message(self, index: int, message: Message, ends: dict[int, float]) -> Iterator[Any]:
        yield self.env.timeout(message.start_s)
        tail = self.env.timeout(0.0)  # at the source, all bytes are there
        route = self.topology.route(message.src, message.dst)
        arrived = self.env.event()
        self.env.process(self._hop(route, message.nbytes, tail, arrived))
        yield arrived
        ends[index] = self.env.now

    def _hop(self, route: Sequence[int], nbytes: float, tail_in: simpy.Event, arrived: simpy.Event) -> Iterator[Any]:
        link = self.topology.links[route[0]]
        with self.resources[route[0]].request() as turn:
            yield turn
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
