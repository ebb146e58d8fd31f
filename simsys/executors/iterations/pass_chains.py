"""Passes as chains of their parts; ranks with common collectives in their passes execute them together.

The ranks of a tensor-parallel group join each of its collectives, which ends for all of them at one time. If they are
simulated separately, since their other groups have different shares of links, one chain continues for all from the
first collective of a pass on. Later collectives of the pass begin when the last rank is ready, as if each rank joined
them by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from simpy.events import Event

from simsys.executors.communication.selected import SelectedSteps
from simsys.executors.component import Component
from simsys.executors.core import Core
from simsys.executors.iterations.part_chain import Begin, Chain
from simsys.executors.iterations.stretches import Stretch
from simsys.executors.meeting import Meeting, Turn
from simsys.ops import Collective, Pass, PassOperation
from simsys.parallel.layout import Group

Part = Stretch | PassOperation
"""A stretch of operations with known times, or a single operation."""


class PassChains(Component):
    """Makes chains of passes.

    Args:
        core: The services that all components share.
        selected: The component that carries out transfers.
        divide: Divides a pass into its parts.
        advance: Lets a rank be at the end of a stretch, ahead of the clock.
    """

    def __init__(
        self,
        core: Core,
        selected: SelectedSteps,
        divide: Callable[[Pass], Sequence[Part]],
        advance: Callable[[Stretch], None],
    ) -> None:
        super().__init__(core)
        self._selected, self._divide, self._advance = selected, divide, advance
        self._parts: dict[Pass, Sequence[Part]] = {}
        self._begins: dict[Pass, Sequence[Begin]] = {}
        self._waiting: dict[Meeting, list[Chain]] = {}
        self._joint: dict[tuple[tuple[Pass, int], ...], Sequence[Begin] | None] = {}

    def begin(self, each: Pass) -> Event:
        """Begin a pass; the event fires at its end."""
        parts = self._parts.get(each)
        if parts is None:
            parts = self._parts[each] = self._divide(each)
            self._begins[each] = [self._begin(part) for part in parts]
        return Chain(self.env, each, self._begins[each]).begin()

    def _begin(self, part: Part) -> Begin:
        """The function that begins a part of a pass of one rank."""
        if isinstance(part, Stretch):
            return partial(self._advance_all, [part])
        if not isinstance(part, Collective) or self.communicator(part.group).trivial(part.nbytes):
            return partial(self._start, part)
        if self.members(part.group) > 1 or part.rank not in part.group.ranks:
            return partial(self._join, part)
        return partial(self._queue, part) if self._selected.is_carried(part.group) else partial(self._start, part)

    def _start(self, op: PassOperation, chain: Chain) -> bool:
        """Start a single operation."""
        event = self.start(op)
        if event.callbacks is None:
            return True
        event.callbacks.append(chain.go_on)
        return False

    def _held_up(self, op: Collective) -> bool:
        """Whether collectives of its group that the rank has issued before wait for something else."""
        stream = self.core.streams.get((op.rank, op.group)) if self.core.streams else None
        return stream is not None and stream.held_up

    def _queue(self, op: Collective, chain: Chain) -> bool:
        """A collective on the links that no other simulated rank has to join."""
        if self._held_up(op):
            return self._start(op, chain)
        self._selected.queue(Turn(op, self.now(op.rank), chain.go_on))
        return False

    def _join(self, op: Collective, chain: Chain) -> bool:
        """A collective that other simulated ranks join, too."""
        if self._held_up(op):
            return self._start(op, chain)
        meeting = self.communicator(op.group).meetings.join(op, self.now(op.rank))
        chains = self._waiting.get(meeting)
        if chains is None:
            chains = self._waiting[meeting] = []
            meeting.event.callbacks.append(partial(self._go_on, meeting))
        chains.append(chain)
        if meeting.missing == 0:
            self._selected.run_collective(meeting, meeting.ready_s)
        return False

    def _go_on(self, meeting: Meeting, _: Event) -> None:
        """Continue chains after a collective: one for all if possible, else each by itself."""
        chains, begins = self._waiting.pop(meeting), None
        if len(chains) == self.communicator(meeting.op.group).members:
            key = tuple([(each.of, each.place) for each in chains])
            if key not in self._joint:
                rests = [self._parts[each.of][each.place :] for each in chains]
                self._joint[key] = self._joint_begins(meeting.op.group, rests)
            begins = self._joint[key]
        if begins is not None:
            chains[0].lead(chains[1:], begins)
            return
        for each in chains:
            each.go_on()

    def _joint_begins(self, group: Group, rests: Sequence[Sequence[Part]]) -> Sequence[Begin] | None:
        """Functions that begin the rest of the passes of a group's simulated ranks together; None if they differ."""
        begins = list[Begin]()
        if len({len(rest) for rest in rests}) > 1:
            return None
        for parts in zip(*rests, strict=True):
            stretches = [part for part in parts if isinstance(part, Stretch)]
            ops = [part for part in parts if isinstance(part, Collective) and part.group == group]
            if len(stretches) == len(parts):
                begins.append(partial(self._advance_all, stretches))
            elif len(ops) == len(parts) and len({(op.kind, op.nbytes) for op in ops}) == 1 and ops[0].nbytes:
                begins.append(partial(self._join_all, ops))
            else:
                return None
        return begins

    def _advance_all(self, stretches: Sequence[Stretch], _: Chain) -> bool:
        for each in stretches:
            self._advance(each)
        return True

    def _join_all(self, ops: Sequence[Collective], chain: Chain) -> bool:
        """A collective of chains that continue together; it begins when the last of them is ready."""
        op = ops[0]
        ready_s = max([self.now(each.rank) for each in ops])
        if self._selected.is_carried(op.group):
            self._selected.queue(Turn(op, ready_s, chain.go_on))
            return False
        meeting = Meeting(op, 0, self.env)
        meeting.event.callbacks.append(chain.go_on)
        self._selected.run_collective(meeting, ready_s)
        return False
