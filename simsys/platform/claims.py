"""Claims: sets of links that a schedule holds exclusively until another transfer comes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from typing import Protocol

import simpy

_MOST_PATIENCE = 1 << 10  # undisturbed steps that are waited for at most before links are claimed again


class Undisturbed(Protocol):
    """A run with exclusive links."""

    end_s: float

    def interrupt(self) -> None:
        """Continue step by step from now on."""


class Claim(ABC):
    """Exclusive use of some links.

    Args:
        env: The environment.
        changes_s: When the links change.
    """

    __slots__ = ("_calm", "_env", "_patience", "held", "run", "starts_s")

    def __init__(self, env: simpy.Environment, changes_s: Sequence[float]) -> None:
        self._env = env
        self.starts_s = sorted({0.0, *changes_s})
        """The beginning of each epoch, a time without changes of the links."""
        self.held = False
        """Whether the links are held; every other transfer then calls `give_way` first."""
        self._calm, self._patience = 0, 1
        self.run: Undisturbed | None = None
        """The activity on the links."""

    @abstractmethod
    def _acquire(self) -> bool:
        """Hold the links if they are idle and no transfer is on its way to them; return whether they are held."""

    @abstractmethod
    def _release(self) -> None:
        """Release the links."""

    def epoch(self, time_s: float) -> int:
        """The number of changes of the links up to a time."""
        return bisect_right(self.starts_s, time_s) - 1 if len(self.starts_s) > 1 else 0

    def take(self) -> bool:
        """Hold the links from now on if they are idle and not awaited by a transfer; return whether they are held."""
        if self.held:
            if self.run is None or self.run.end_s <= self._env._now:
                return True
            self.give_way()
            return False
        self.held = self._acquire()
        return self.held

    def give_way(self) -> None:
        """Release the links for another transfer, in their state at this moment."""
        self.held = False
        self._release()
        run, self.run = self.run, None
        if run is not None and run.end_s > self._env._now:
            self._calm, self._patience = 0, min(2 * self._patience, _MOST_PATIENCE)
            run.interrupt()

    def calm(self, undisturbed: bool) -> bool:
        """Whether to claim the links again after a step, `undisturbed` or not.

        Each interruption doubles the number of undisturbed steps that are waited for, so that collectives that
        interrupt each other repeatedly do not spend their time on claims.
        """
        self._calm = self._calm + 1 if undisturbed else 0
        return self._calm >= self._patience

    def ended(self, run: Undisturbed) -> None:
        """Note that a run has ended undisturbed."""
        if self._patience > 1:
            self._patience //= 2
        if self.run is run:
            self.run = None
