"""Links and the transfers over them: cut-through, first come first served on every link.

A transfer's head moves on to the next link one latency after it entered the previous one; its tail leaves
a link when the link has serialised it, but not before it has come in. So an undisturbed transfer takes the
sum of the latencies plus the bytes over the slowest link, and each link of the route is reserved at the
moment the head reaches it, never ahead of time. A link is reserved for as long as it needs itself: while a
transfer trickles in from a slower link, packets of others pass, or eight NICs could not share one fast uplink.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from simpy.events import Event

from simsys.platform.environment import At, Callback, Environment
from simsys.platform.server import CalendarServer
from simsys.platform.topology import LinkSpec, Topology


class Link(CalendarServer):
    """One direction of a link; also counts the bytes it carried."""

    __slots__ = ("bytes_per_s", "latency_s", "nbytes", "spec")

    def __init__(self, spec: LinkSpec) -> None:
        super().__init__()
        self.spec = spec
        self.bytes_per_s = spec.bytes_per_s
        self.latency_s = spec.latency_s
        self.nbytes = 0.0

    def enter(self, head_s: float, tail_s: float, nbytes: float) -> tuple[float, float]:
        """Reserve the link for a transfer whose head is here at `head_s` and whose tail comes in at `tail_s`.

        Returns:
            When the head and when the tail reach the far end.
        """
        start = self.free_at_s
        if start < head_s:
            start = head_s
        serialised_s = nbytes / self.bytes_per_s
        self.free_at_s = finish = start + serialised_s
        self.busy_s += serialised_s
        if finish < tail_s:  # a slower link upstream starves this transfer; the link serves others meanwhile
            finish = tail_s
        self.nbytes += nbytes
        return start + self.latency_s, finish + self.latency_s


_Arrival = tuple[Sequence[Link], int, float, float]
"""A head at the entrance of ``route[hop]``: route, hop, when the tail comes in (s), bytes."""


class Flight:
    """Transfers that start together and count as done when the last one has arrived.

    Heads that reach their next link at the same moment share one event, so a step of a collective over
    equal links costs one event per hop, whatever the number of ranks.
    """

    __slots__ = ("_end_s", "_env", "_event", "_in_flight", "_pause_s")

    def __init__(
        self, env: Environment, routes: Iterable[Sequence[Link]], nbytes: float, pause_s: float = 0.0
    ) -> None:
        self._env = env
        self._event = Event(env)
        self._end_s = env.now
        self._in_flight = 0
        self._pause_s = pause_s
        now = env.now
        self._advance([(route, 0, now, nbytes) for route in routes])

    @property
    def event(self) -> Event:
        """Fires when every transfer has arrived, and the pause after that is over."""
        return self._event

    def _advance(self, arrivals: list[_Arrival]) -> None:
        """Let transfers whose heads are here now enter their next link."""
        env = self._env
        now = env._now
        onward: dict[float, list[_Arrival]] = {}
        while arrivals:
            at_once = []
            for route, hop, tail_s, nbytes in arrivals:
                head_s, tail_s = route[hop].enter(now, tail_s, nbytes)
                if hop + 1 == len(route):
                    if tail_s > self._end_s:
                        self._end_s = tail_s
                elif head_s == now:
                    at_once.append((route, hop + 1, tail_s, nbytes))
                else:
                    onward.setdefault(head_s, []).append((route, hop + 1, tail_s, nbytes))
            arrivals = at_once
        self._in_flight += len(onward)
        for head_s, group in onward.items():
            At(env, head_s, self._make_step(group))
        if not self._in_flight:
            self._finish()

    def _make_step(self, group: list[_Arrival]) -> Callback:
        def step(_: Event) -> None:
            self._in_flight -= 1
            self._advance(group)

        return step

    def _finish(self) -> None:
        """Schedule the user's own event at the end: no extra event for the completion."""
        self._env.fire_at(self._end_s + self._pause_s, self._event)


class Network:
    """The links of a topology, their routes, and transfers over them.

    Args:
        env: The environment.
        topology: Vertices and links.
    """

    def __init__(self, env: Environment, topology: Topology) -> None:
        self.env = env
        self.topology = topology
        self.links = [Link(spec) for spec in topology.links]
        self._routes: dict[tuple[int, int], tuple[Link, ...]] = {}

    def route(self, src: int, dst: int) -> tuple[Link, ...]:
        """The links from GPU `src` to GPU `dst`, cached."""
        key = src, dst
        found = self._routes.get(key)
        if found is None:
            found = self._routes[key] = tuple(self.links[index] for index in self.topology.route(src, dst))
        return found

    def transfer(self, src: int, dst: int, nbytes: float) -> Event:
        """Send `nbytes` from GPU `src` to GPU `dst`; the event fires when the last byte has arrived."""
        route = self.route(src, dst)
        if not route or not nbytes:
            return At(self.env, self.env.now + sum(link.latency_s for link in route))
        return Flight(self.env, (route,), nbytes).event

    def transfer_all(self, routes: Iterable[Sequence[Link]], nbytes: float, pause_s: float = 0.0) -> Event:
        """Send `nbytes` over each of `routes` at once, in this order; fires `pause_s` after all have arrived."""
        return Flight(self.env, routes, nbytes, pause_s).event

    def idle_path(self, pairs: Iterable[tuple[int, int]]) -> tuple[float, float]:
        """Latency in seconds and bytes/s of the slowest transfer when all `pairs` transfer at once on idle links.

        Links that k of the pairs share give each a k-th of their rate.
        """
        routes = [self.route(src, dst) for src, dst in pairs]
        load: dict[Link, int] = {}
        for route in routes:
            for link in route:
                load[link] = load.get(link, 0) + 1
        latency_s, bytes_per_s = 0.0, float("inf")
        for route in routes:
            latency_s = max(latency_s, sum(link.latency_s for link in route))
            bytes_per_s = min((bytes_per_s, *(link.bytes_per_s / load[link] for link in route)))
        return latency_s, bytes_per_s
