"""A router that deals requests out in turn."""

from __future__ import annotations

from typing import Any

from simsys.framework import Engine, Router, register


@register("round_robin")
class RoundRobin(Router):
    """One replica after another, whatever they have to do."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.turn = -1

    def route(self, request: int) -> Engine:
        """The next one of those there are now."""
        self.turn = (self.turn + 1) % len(self.replicas)
        return self.replicas[self.turn]
