"""Programs of training passes, one by one: the interface of all program components."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from simpy.events import Event

from simsys.executors.communication.base import Communication
from simsys.executors.component import Component
from simsys.executors.core import Core
from simsys.ops import Pass, Program
from simsys.parallel.cycle import Step


class PlayedPrograms(Component):
    """Starts each operation of a pass at the end of the previous one.

    Args:
        core: The services that all components share.
        communication: The component that carries out transfers.
    """

    def __init__(self, core: Core, communication: Communication) -> None:
        super().__init__(core)
        self.communication = communication
        self._steps_of: dict[int, tuple[object, Sequence[Step]]] = {}  # by identity of the passes, which it holds

    def program(self, op: Program) -> Event:
        """Run the passes one by one."""
        return self.env.process(self.play(op))

    def play(self, op: Program) -> Generator[Event, Any, None]:
        """The process that runs the passes one by one."""
        for place, left_out in self.core.steps_of(op.rank, self._steps(op)):
            each, micro_batch = op.passes[place], op.micro_batches[place]
            if left_out:
                assert isinstance(micro_batch, int)  # else no cycle is found
                micro_batch -= left_out
            if each.receive is not None:
                yield self.start(each.receive.of(micro_batch))
            for change in each.takes:
                self.start(change)
            self.core.synchronize(op.rank)
            yield from self.carry_out(each)
            for given in each.gives:
                self.start(given)
            if each.send is not None:
                sent = self.start(each.send.of(micro_batch))
                if each.waits:
                    yield sent

    def _steps(self, op: Program) -> Sequence[Step]:
        """The passes with their micro-batches, made once."""
        _, found = self._steps_of.get(id(op.passes)) or (None, None)
        if found is None:
            found = list(zip(op.passes, op.micro_batches, strict=True))
            self._steps_of[id(op.passes)] = op.passes, found
        return found

    def carry_out(self, each: Pass) -> Generator[Event, Any, None]:
        """Run the operations of a pass in turn, without its messages and memory."""
        for operation in each.run:
            yield self.start(operation)
