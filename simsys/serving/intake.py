"""What requests pass between their arrival at an engine and the queue of its scheduler."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from sys import maxsize
from typing import ClassVar

from simsys.serving.engine_state import EngineState


class Intake(ABC):
    """Holds requests back while an engine is busy: subclass it for an engine that does not see arrivals at once."""

    engine: EngineState

    counts: ClassVar[bool] = True
    """Whether it counts steps while it holds no requests back; if not, it is not asked then."""

    def __init__(self) -> None:
        self.waiting: deque[int] = deque()
        """Requests that are held back; the same queue all the time."""

    def bind(self, engine: EngineState) -> None:
        """It is the intake of an engine from now on."""
        self.engine = engine

    @property
    def longest_run(self) -> int:
        """Largest number of decode steps of a run that begins now, so that `ran` is called in time."""
        return maxsize

    @abstractmethod
    def passes(self, request: int) -> bool:
        """Whether a request that arrives now may join the scheduler's queue; if not, it is held back here."""

    @abstractmethod
    def ran(self, steps: int, *, prompts: bool) -> None:
        """A run of a number of steps has ended, with or without prompts; `release` requests for the scheduler."""

    def withdraw(self, request: int) -> None:
        """The client of a request that is held back has given up."""
        self.waiting.remove(request)

    def releases(self) -> bool:
        """The engine is idle: release requests held back; False if there are none."""
        found = bool(self.waiting)
        if found:
            self.release()
        return found

    def release(self) -> None:
        """Move all requests held back to the scheduler's queue."""
        while self.waiting:
            self.engine.scheduler.waiting.append(self.waiting.popleft())
