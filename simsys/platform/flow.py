"""Transfers as flows of a fluid, the links that they share, and what waits for them."""

from __future__ import annotations

from simpy.events import Event

from simsys.platform.environment import LATE, Environment
from simsys.platform.link import Link
from simsys.platform.schedule import Route
from simsys.platform.topology import LinkSpec


class FairLink(Link):
    """A link that knows the flows on it."""

    def __init__(self, spec: LinkSpec) -> None:
        super().__init__(spec)
        self.flows: dict[Flow, None] = {}
        """In the order of arrival."""
        self.left_bytes_per_s = 0.0
        """During filling: what the flows with a rate leave to those without."""
        self.filling = 0
        """During filling: how many flows have no rate yet."""
        self.looked_at = False
        """During filling: whether its flows may change."""
        self._settled_bytes = self._settled_s = 0.0

    def busy_before(self, now_s: float) -> float:
        """Seconds at full rate for the bytes that have been sent."""
        return self._settled_s + (self._sent_bytes(now_s) - self._settled_bytes) / self.bytes_per_s

    def _sent_bytes(self, now_s: float) -> float:
        coming = sum(flow.left_bytes - flow.bytes_per_s * (now_s - flow.since_s) for flow in self.flows)
        return self.nbytes - coming

    def outdated(self, now_s: float) -> bool:
        """Whether it has another bandwidth or latency now."""
        spec = self.spec_at(now_s)
        return (self.bytes_per_s, self.latency_s) != (spec.bytes_per_s, spec.latency_s)

    def settle(self, now_s: float) -> None:
        """Account for what has been sent at the rate up to now."""
        self._settled_s = self.busy_before(now_s)
        self._settled_bytes = self._sent_bytes(now_s)


class Batch:
    """Transfers that start together and count as done when the last one has arrived.

    Args:
        env: The environment.
        missing: How many.
        pause_s: How long after the last arrival they count as done.
    """

    __slots__ = ("_end_s", "_env", "_missing", "_pause_s", "event")

    def __init__(self, env: Environment, missing: int, pause_s: float = 0.0) -> None:
        self._env, self._missing, self._pause_s = env, missing, pause_s
        self._end_s = env._now
        self.event = Event(env)
        """Fires when every transfer has arrived, and the pause after that is over."""
        if not missing:
            env.fire_at(self._end_s + pause_s, self.event, priority=LATE)

    def arrives(self, end_s: float) -> None:
        """One of them will have arrived at `end_s`."""
        if end_s > self._end_s:
            self._end_s = end_s
        self._missing -= 1
        if not self._missing:
            self._env.fire_at(self._end_s + self._pause_s, self.event, priority=LATE)


class Flow:
    """A transfer that is being sent.

    Args:
        route: Its links.
        nbytes: Its size.
        batch: What it is part of.
        now_s: When it starts.
    """

    __slots__ = (
        "_alone_bytes_per_s",
        "_batch",
        "bytes_per_s",
        "end_s",
        "filling",
        "left_bytes",
        "limit",
        "route",
        "since_s",
    )

    def __init__(self, route: Route[FairLink], nbytes: float, batch: Batch, now_s: float) -> None:
        self.route, self._batch = route, batch
        self.left_bytes, self.since_s = nbytes, now_s
        """What was left to be sent, and when that was."""
        self._alone_bytes_per_s = min([link.bytes_per_s for link in route])
        self.bytes_per_s = 0.0
        """Its rate; 0 before it has one."""
        self.end_s = float("inf")
        """When the last byte is sent, if nothing changes."""
        self.limit = route[0]
        """The link that decides the rate."""
        self.filling = False
        """Whether its rate is being found."""

    def change(self, bytes_per_s: float, limit: FairLink, now_s: float) -> None:
        """Go on at another rate; what has been lost to others up to now is put down to the link that decided."""
        elapsed_s = now_s - self.since_s
        left_bytes = self.left_bytes
        if elapsed_s > 0.0:
            before = self.bytes_per_s
            left_bytes -= before * elapsed_s
            if left_bytes < 0.0:  # by a rounding
                left_bytes = 0.0
            self.left_bytes, self.since_s = left_bytes, now_s
            self.limit.queued_s += elapsed_s * (1.0 - before / self._alone_bytes_per_s)
        self.bytes_per_s, self.limit = bytes_per_s, limit
        self.end_s = now_s + left_bytes / bytes_per_s

    def renew(self, now_s: float) -> None:
        """A link of its route has changed: account for the time up to now; the rate is found anew after that."""
        self.change(self.bytes_per_s, self.limit, now_s)
        self._alone_bytes_per_s = min([link.bytes_per_s for link in self.route])

    def finish(self, now_s: float) -> None:
        """The last byte is sent; it arrives the latency of the route later."""
        self.change(self.bytes_per_s, self.limit, now_s)
        self.end_s = -1.0  # as no entry in a calendar
        self._batch.arrives(now_s + sum([link.latency_s for link in self.route]))
