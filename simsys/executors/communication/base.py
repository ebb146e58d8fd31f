"""The interface of communication components."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar, Protocol

from simpy.events import Event

from simsys.collectives.base import CollectiveKind
from simsys.executors.communicator import Communicator
from simsys.executors.component import Component
from simsys.executors.meeting import Meeting
from simsys.ops import Pipelined, Send, Transfer
from simsys.platform.events import Callback


class Exchange(Protocol):
    """A collective of a serving team that is carried out again and again."""

    idle_s: float
    """Duration on idle links in their initial state."""

    def start(self, done: Callback) -> None:
        """Carry it out from now on, and then call `done`."""

    def seconds(self, start_s: float) -> float:
        """Duration on idle links from a start time."""


class Communication(Component, ABC):
    """A communication component; arguments as for `Component`."""

    queues: ClassVar[bool] = False
    """Whether transfers queue for their links, so that processes may request these on a platform that is shared."""
    joins_steps: ClassVar[bool] = False
    """Whether equal steps of a collective that follow one another are carried out as one."""
    contention: str
    """How links are shared, for results."""

    @abstractmethod
    def run_collective(self, meeting: Meeting, ready_s: float) -> None:
        """Execute a collective with all members present; must fire ``meeting.event``."""

    @abstractmethod
    def send(self, op: Send) -> Event:
        """Carry a message to another rank."""

    @abstractmethod
    def transfer(self, op: Transfer) -> Event:
        """Carry messages from one team to another, from now on; fires when all have arrived."""

    @abstractmethod
    def hand_on(self, op: Pipelined, stage: int, arrived: Callback) -> None:
        """Send the hidden states from each rank of a stage to its neighbour in the next."""

    @abstractmethod
    def exchange(self, communicator: Communicator, kind: CollectiveKind, nbytes: float) -> Exchange:
        """A collective between the segments of passes."""

    def counters(self) -> list[float]:
        """Traffic of the links so far, if counted."""
        return []

    def repeat(self, sent: Sequence[float], count: int) -> None:
        """Count `count` times as much again on the links."""

    def warnings(self) -> Iterable[str]:
        """Warnings about the accuracy of the times of a run."""
        return ()
