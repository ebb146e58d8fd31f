"""Transfers that start together, and the event of their completion."""

from __future__ import annotations

import simpy
from simpy.events import Event

from simsys.platform.events import LATE, fire_at


class PendingTransfers:
    """Transfers that start together and are complete when the last one has arrived.

    Args:
        env: The environment.
        missing: The number of transfers.
        pause_s: Time from the last arrival to the completion.
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
        """Number of them that will have arrived at `end_s`."""
        if end_s > self._end_s:
            self._end_s = end_s
        self._missing -= transfers
        if not self._missing:  # a resumed batch may have arrived in the past of its pause, but not before now
            fire_at(self._env, max(self._end_s + self._pause_s, self._env._now), self.event, priority=LATE)
