"""Collectives that a group carries out again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simsys.platform.events import Callback
from simsys.platform.link_schedule import LinkSchedule
from simsys.platform.traffic import Account


class RecurringCollective:
    """A collective of one kind and size that a group carries out again and again.

    Args:
        account: Counts what it sends.
        nbytes: Its size.
        schedule: Its steps on the links.
        seconds: How long it takes on idle links, by when it begins.
    """

    __slots__ = ("_account", "_nbytes", "idle_s", "schedule", "seconds")

    def __init__(
        self, account: Account, nbytes: float, schedule: LinkSchedule[Any], seconds: Callable[[float], float]
    ) -> None:
        self._account, self._nbytes = account, nbytes
        self.schedule, self.seconds = schedule, seconds
        self.idle_s = seconds(0.0)
        """How long it takes on idle links as they are at the beginning."""

    def start(self, done: Callback) -> None:
        """Carry it out on the links, from now on, and then call `done`."""
        self._account.nbytes += self._nbytes
        self.schedule.start(done)
