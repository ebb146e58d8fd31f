"""A pass that is under way: each of its parts begins in the moment in which the one before has ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simpy.events import Event

from simsys.ops import Pass
from simsys.platform.environment import Environment

Begin = Callable[["Chain"], bool]
"""Begins a part; says whether it has ended already. If not, it calls `Chain.go_on` at its end."""


class Chain:
    """The parts of a pass, for which the process of its rank waits once.

    Args:
        env: The environment.
        of: The pass.
        begins: Functions that begin the parts, in order.
    """

    __slots__ = ("_company", "_ended", "_env", "begins", "of", "place")

    def __init__(self, env: Environment, of: Pass, begins: Sequence[Begin]) -> None:
        self._env, self.of, self.begins, self.place = env, of, begins, 0
        """The functions that begin the parts, and the index of the next one."""
        self._ended: Event | None = None
        self._company: Sequence[Chain] = ()

    def begin(self) -> Event:
        """Begin the first part; the event has already fired if all parts end at the current time."""
        if self._advance():
            return self._env.done
        self._ended = Event(self._env)
        return self._ended

    def go_on(self, _: Event | None = None) -> None:
        """A part has ended: begin the next ones."""
        if self._advance():
            for each in (self, *self._company):
                assert each._ended is not None
                each._ended.succeed()

    def lead(self, company: Sequence[Chain], begins: Sequence[Begin]) -> None:
        """Continue with parts that also represent the parts of other chains, which end together with this one."""
        self._company, self.begins, self.place = company, begins, 0
        self.go_on()

    def _advance(self) -> bool:
        """Begin parts until one does not end at once; return whether all have ended."""
        begins = self.begins
        while self.place < len(begins):
            begin = begins[self.place]
            self.place += 1
            if not begin(self):
                return False
        return True
