"""Claims: sets of links held exclusively by a schedule until another transfer comes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from typing import Protocol

import simpy

_MOST_PATIENCE = 1 << 10  # undisturbed steps that are waited for at most before links are claimed again


class Undisturbed(Protocol):
    """A run that has links for itself."""

    end_s: float

    def interrupt(self) -> None:
        """Continue step by step from now on."""


class Claim(ABC):
    """Links that schedules want for themselves.

    Args:
        env: The environment.
        changes_s: When the links change.
    """

    __slots__ = ("_calm", "_env", "_patience", "held", "run", "starts_s")

    def __init__(self, env: simpy.Environment, changes_s: Sequence[float]) -> None:
        self._env = env
        self.starts_s = sorted({0.0, *changes_s})
        """Start of each epoch of constant links."""
        self.held = False
        """Whether every other transfer on the links first makes this claim give way."""
        self._calm, self._patience = 0, 1
        self.run: Undisturbed | None = None
        """The activity on the links."""

    @abstractmethod
    def _acquire(self) -> bool:
        """Hold the links if nothing is on them or on its way to them; say whether that is so."""

    @abstractmethod
    def _release(self) -> None:
        """Let go of the links."""

    def epoch(self, time_s: float) -> int:
        """How often the links have changed by a time."""
        return bisect_right(self.starts_s, time_s) - 1 if len(self.starts_s) > 1 else 0

    def take(self) -> bool:
        """Hold the links from now on if they are idle and nothing is on its way to them; say whether that is so."""
        if self.held:
            if self.run is None or self.run.end_s <= self._env._now:
                return True
            self.give_way()
            return False
        self.held = self._acquire()
        return self.held

    def give_way(self) -> None:
        """Another transfer comes: let go of the links, as they are at this moment."""
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
        """A run has ended undisturbed."""
        if self._patience > 1:
            self._patience //= 2
        if self.run is run:
            self.run = None
