"""The base of routers, which assign every arriving request to a replica."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
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

    shares_queue: ClassVar[bool] = False
    """Whether all replicas admit requests from one queue, so that none of them may set a request aside."""

    def __init__(self, replicas: Sequence[Engine], seed: int, options: Any = None) -> None:
        self.replicas = replicas
        self.options: Any = self.Options() if options is None else options
        self._rng = stream(seed, "router")

    @abstractmethod
    def route(self, request: int) -> Engine:
        """The replica for a request that arrives now."""

    def draw(self) -> float:
        """A random number, evenly from 0 to 1, from the stream ``router`` of the scenario."""
        return self._rng.random()
