"""Collectives that a group carries out again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simsys.platform.events import Callback
from simsys.platform.link_schedule import LinkSchedule
from simsys.platform.traffic import Account


class RecurringCollective:
    """A recurring collective of one kind and size of a group.

    Args:
        account: Account of its traffic.
        nbytes: Its size.
        schedule: Its steps on the links.
        seconds: Duration on idle links by start time.
    """

    __slots__ = ("_account", "_nbytes", "idle_s", "schedule", "seconds")

    def __init__(
        self, account: Account, nbytes: float, schedule: LinkSchedule[Any], seconds: Callable[[float], float]
    ) -> None:
        self._account, self._nbytes = account, nbytes
        self.schedule, self.seconds = schedule, seconds
        self.idle_s = seconds(0.0)
        """Duration on idle links in their initial state."""

    def start(self, done: Callback) -> None:
        """Carry it out on the links, from now on, and then call `done`."""
        self._account.nbytes += self._nbytes
        self.schedule.start(done)
