"""A router that deals requests out in turn."""

from __future__ import annotations

from itertools import cycle
from typing import Any

from simsys.framework import Replica, Router, register


@register("round_robin")
class RoundRobin(Router):
    """One replica after another, whatever they have to do."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.turns = cycle(self.replicas)

    def route(self, request: int) -> Replica:
        """The next one."""
        return next(self.turns)
