"""What a router is: it hands every request to one of the replicas when it arrives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from simsys.rng import stream
from simsys.serving.replica import Replica


class Router(ABC):
    """Hands out requests: subclass it and write `route`.

    Args:
        replicas: To choose from, which change where they are scaled. They tell their `outstanding` requests and
            `free_blocks` of KV cache.
        seed: The scenario's, for random choices.
    """

    scales: ClassVar[bool] = True
    """Whether replicas may come and go; not if it treats those it is given at first differently."""

    def __init__(self, replicas: Sequence[Replica], seed: int) -> None:
        self.replicas = replicas
        self._rng = stream(seed, "router")

    @abstractmethod
    def route(self, request: int) -> Replica:
        """The replica for a request that arrives now."""

    def draw(self) -> float:
        """A random number, evenly from 0 to 1, from the stream ``router`` of the scenario."""
        return self._rng.random()
