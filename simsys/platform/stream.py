"""Flows that are being sent at the same rate, and what waits for them."""

from __future__ import annotations

import simpy
from simpy.events import Event

from simsys.platform.environment import LATE, fire_at
from simsys.platform.flow_set import FlowSet
from simsys.platform.max_min import Portion


class Batch:
    """Transfers that start together and count as done when the last one has arrived.

    Args:
        env: The environment.
        missing: How many.
        pause_s: How long after the last arrival they count as done.
    """

    __slots__ = ("_end_s", "_env", "_missing", "_pause_s", "event")

    def __init__(self, env: simpy.Environment, missing: int, pause_s: float = 0.0) -> None:
        self._env, self._missing, self._pause_s = env, missing, pause_s
        self._end_s = 0.0
        self.event = Event(env)
        """Fires when every transfer has arrived, and the pause after that is over."""
        if not missing:
            fire_at(env, env._now + pause_s, self.event, priority=LATE)

    def arrive(self, transfers: int, end_s: float) -> None:
        """So many of them will have arrived at `end_s`."""
        if end_s > self._end_s:
            self._end_s = end_s
        self._missing -= transfers
        if not self._missing:  # a resumed batch may have arrived in the past of its pause, but not before now
            fire_at(self._env, max(self._end_s + self._pause_s, self._env._now), self.event, priority=LATE)


class Stream:
    """Flows that are being sent at the same rate.

    Args:
        flows: The flows.
        left_bytes: What is left of each.
        batch: What they are part of.
        since_s: As of when.
    """

    __slots__ = ("batch", "bytes_per_s", "end_s", "flows", "left_bytes", "portion", "since_s")

    def __init__(self, flows: FlowSet, left_bytes: float, batch: Batch, since_s: float) -> None:
        self.flows, self.left_bytes, self.batch, self.since_s = flows, left_bytes, batch, since_s
        self.portion: Portion | None = None
        """What decides the rate; none before it is found."""
        self.bytes_per_s = 0.0
        self.end_s = float("inf")
        """When the last bytes are sent, if nothing changes."""

    def settle(self, now_s: float) -> None:
        """Account for what has been sent up to now."""
        elapsed_s = now_s - self.since_s
        if elapsed_s > 0.0 and self.portion is not None:
            sent_bytes = min(self.bytes_per_s * elapsed_s, self.left_bytes)
            self.left_bytes -= sent_bytes
            self.flows.sent_bytes += sent_bytes
            self.portion.elapsed_s += elapsed_s
        self.since_s = now_s

    def go_on(self, portion: Portion) -> bool:
        """Go on as part of a portion; say whether it ends at another time than before."""
        self.portion = portion
        if portion.bytes_per_s == self.bytes_per_s:
            return False
        self.bytes_per_s = portion.bytes_per_s
        self.end_s = self.since_s + self.left_bytes / self.bytes_per_s
        return True
