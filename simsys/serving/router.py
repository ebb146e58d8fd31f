"""The base of routers, which assign every arriving request to a replica."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import exp
from typing import TYPE_CHECKING, Any, ClassVar

from simsys.config.base import Configurable
from simsys.rng import stream

if TYPE_CHECKING:
    from simsys.serving.engine import Engine


class Router(Configurable, ABC):
    """Assigns requests to replicas: subclass it and write `route`.

    Args:
        replicas: Selectable replicas, which change with autoscaling. They have `outstanding` requests and
            `free_blocks` of KV cache.
        seed: Seed of the scenario, for random choices.
        options: The router's settings; by default, their defaults.
    """

    scales: ClassVar[bool] = True
    """Whether replicas may come and go; not if it treats those it is given at first differently."""

    needs_prefix_caching: ClassVar[bool] = False
    """Whether it looks for cached prefixes, so that a scenario without prefix caching is refused."""

    sheds: ClassVar[bool] = False
    """Whether it may reject requests (`refusal`)."""
    shares_queue: ClassVar[bool] = False
    """Whether all replicas admit requests from one queue, so that none of them may set a request aside."""

    def __init__(self, replicas: Sequence[Engine], seed: int, options: Any = None) -> None:
        self.replicas = replicas
        self.options: Any = self.Options() if options is None else options
        self._rng = stream(seed, "router")

    @abstractmethod
    def route(self, request: int) -> Engine:
        """The replica for a request that arrives now."""

    def refusal(self, request: int) -> str:
        """Why a request that arrives now is rejected with status 429; empty if it is routed. Asked if it `sheds`."""
        return ""

    def priority_of(self, request: int) -> int:
        """The priority of a request; the lower, the more urgent; 0 without priorities."""
        priority = self.replicas[0].sequences.priority
        return priority[request] if priority else 0

    def draw_by(self, weights: Sequence[float]) -> int:
        """A random place, by weights of which one at least is above 0."""
        ends = list(accumulate(weights))
        return min(bisect_right(ends, self.draw() * ends[-1]), len(ends) - 1)

    def draw_by_cost(self, costs: Sequence[float], temperature: float = 0.0) -> int:
        """The place of the lowest cost; with a temperature, one drawn by softmax over costs scaled to 0 to 1."""
        least, spread = min(costs), max(costs) - min(costs)
        if not temperature:
            return costs.index(least)
        return self.draw_by([exp(-(cost - least) / (spread or 1.0) / temperature) for cost in costs])

    def draw(self) -> float:
        """A random number, evenly from 0 to 1, from the stream ``router`` of the scenario."""
        return self._rng.random()
