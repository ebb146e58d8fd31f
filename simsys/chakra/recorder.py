"""Records what each rank does in one training iteration, and what it waits for, as nodes of a trace.

An operation depends on everything that the process of its rank has waited for, on the computation issued before it
(the stream of the GPU), and on the previous collective of its group or the previous copy of its channel. Times do not
matter for dependencies, so a trace can be replayed on other hardware.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from simpy.events import Event, Process

from simsys.executors.execution_model import ExecutionModel
from simsys.executors.executor import Combination, Executor
from simsys.ops import Collective, Compute, HostWork, Operation, Program, Recv, Send
from simsys.platform.events import processed
from simsys.platform.partition import Hardware
from simsys.probes import Probe, Probes

Recordable = Compute | Collective | Send | Recv | HostWork


@dataclass(slots=True, eq=False)
class RecordedNode:
    """An operation of one rank.

    Args:
        place: Its number on its rank.
        op: The operation; None for the wait for the batches of the iteration.
        deps: Places of the operations that must have ended before.
        covers: These, and others that ended before them.
        started_s: When it began.
        ended_s: When it ended.
    """

    place: int
    op: Recordable | None
    deps: tuple[int, ...]
    covers: frozenset[int]
    started_s: float = 0.0
    ended_s: float = 0.0


@dataclass(slots=True)
class _Thread:
    """A process of a rank, and the operations that it has waited for."""

    waited: frozenset[int] = frozenset()


@dataclass(slots=True)
class RankRecord:
    """What a rank has done in the recorded iteration; places of operations are those in `nodes`."""

    nodes: list[RecordedNode] = field(default_factory=list)
    thread: _Thread = field(default_factory=_Thread)
    computed: int | None = None
    latest: dict[Hashable, int] = field(default_factory=dict)
    """By group or channel of the host, the latest operation."""
    ended_by: dict[Event, frozenset[int]] = field(default_factory=dict)
    """By event, the operations that have ended when it fires."""
    threads: dict[Event, _Thread] = field(default_factory=dict)
    """By event, the process that ends with it."""

    def needed(self, places: Iterable[int | None]) -> frozenset[int]:
        """The operations that have ended if the process has waited for all so far, and these have ended."""
        return self.thread.waited.union(place for place in places if place is not None)

    def add(self, op: Recordable | None, needs: frozenset[int]) -> RecordedNode:
        """Add an operation that begins after others; those that ended before others are left out."""
        before = frozenset[int]().union(*(self.nodes[place].covers for place in needs))
        node = RecordedNode(len(self.nodes), op, tuple(sorted(needs - before)), needs)
        self.nodes.append(node)
        return node

    def await_all(self, places: frozenset[int]) -> None:
        """The current process has waited for operations."""
        before = frozenset[int]().union(*(self.nodes[place].covers for place in places))
        self.thread.waited = (self.thread.waited - before) | places

    def of(self, event: Event) -> frozenset[int]:
        """The operations that have ended when an event has fired."""
        thread = self.threads.get(event)
        return thread.waited if thread is not None else self.ended_by.get(event, frozenset())


class Recorder(Probe):
    """The records of all ranks, with the times of their operations.

    Args:
        iteration: The iteration to record, counted from 0.
    """

    indispensable = True

    def __init__(self, iteration: int) -> None:
        self.iteration = iteration
        self.records: dict[int, RankRecord] = {}
        self.started_s = self.ended_s = 0.0
        self._begun: dict[int, int] = {}
        self._loaded: dict[int, _Thread] = {}
        self._pending: dict[Hashable, deque[RecordedNode]] = {}

    @property
    def duration_s(self) -> float:
        """Duration of the recorded iteration, without a checkpoint at its end."""
        return self.ended_s - self.started_s

    def record_of(self, rank: int) -> RankRecord | None:
        """The record of a rank if the iteration is under way, else None."""
        return self.records.get(rank) if self._begun.get(rank) == self.iteration + 1 else None

    def mark(self, rank: int, name: str, now_s: float) -> None:
        """An iteration of a rank begins, has its batches, or ends."""
        if name == "iteration_start":
            self._begun[rank] = self._begun.get(rank, 0) + 1
            if self._begun[rank] == self.iteration + 1:
                self.records[rank], self.started_s = RankRecord(), now_s
        record = self.record_of(rank)
        if record is None:
            return
        if name == "data_loaded":
            node = record.add(None, frozenset())
            node.started_s, node.ended_s = self.started_s, now_s
            self._loaded[rank] = _Thread(frozenset([node.place]))
        elif name in ("checkpoint", "iteration_end"):
            self.ended_s = now_s
            self._begun[rank] = self.iteration + 2

    def first_thread(self, rank: int) -> _Thread:
        """The process of a rank's step, which begins when the batches have been loaded."""
        return self._loaded.pop(rank, _Thread())

    def expect(self, node: RecordedNode, rank: int) -> None:
        """The times of an operation will follow, in the order of its stream."""
        self._pending.setdefault(_stream(node.op, rank), deque()).append(node)

    def operation(self, op: Operation, started_s: float, ended_s: float) -> None:
        """The times of an operation are known; those of a collective are the same for all members."""
        if not isinstance(op, Compute | Collective | Send | HostWork):
            return
        for rank in op.group.ranks if isinstance(op, Collective) else (op.rank,):
            if pending := self._pending.get(_stream(op, rank)):
                node = pending.popleft()
                node.started_s, node.ended_s = started_s, ended_s


def _stream(op: Operation | None, rank: int) -> Hashable:
    """What carries out operations one after another: a GPU, a group, a channel of the host; a message is alone."""
    if isinstance(op, Compute):
        return rank
    if isinstance(op, Collective):
        return rank, op.group
    return (rank, op.channel) if isinstance(op, HostWork) else op


class RecordingExecutor(Executor):
    """An executor that also records operations.

    Args:
        recorder: The records.
        combination: Its components.
        platform: The hardware.
        model: Overheads and algorithms of the software stack.
        roles: One rank each.
        probes: Observers, among them the recorder.
    """

    def __init__(
        self,
        recorder: Recorder,
        combination: Combination,
        platform: Hardware,
        model: ExecutionModel,
        roles: Sequence[Sequence[int]],
        probes: Probes | None = None,
    ) -> None:
        super().__init__(combination, platform, model, roles, probes)
        self.recorder = recorder

    def start(self, op: Operation) -> Event:
        """Start an operation and record it; of composed operations the parts are recorded, which start here, too."""
        record = self.recorder.record_of(op.rank)
        if record is None:
            return super().start(op)
        if isinstance(op, Program):
            thread = _Thread(record.thread.waited)
            process = self.env.process(self._followed(op.rank, record, thread, self._programs.play(op)))
            record.threads[process] = thread
            return process
        node = self._added(record, op, frozenset())
        return _ends(record, node, super().start(op))

    def start_after(self, op: Collective | HostWork, event: Event) -> Event:
        """As `start`; the operation also depends on what has ended when the event fires."""
        record = self.recorder.record_of(op.rank)
        if record is None:
            return super().start_after(op, event)
        node = self._added(record, op, record.of(event))
        return _ends(record, node, super().start_after(op, event))

    def wait(self, rank: int, events: Iterable[Event]) -> Event:
        """An event that fires when all `events` have, which a process may wait for."""
        record, events = self.recorder.record_of(rank), list(events)
        event = super().wait(rank, events)
        if record is None:
            return event
        if event is self.env.done:
            event = processed(self.env)  # one of its own, as all others are
        places = frozenset[int]().union(*map(record.of, events))
        record.ended_by[event] = record.ended_by.get(event, frozenset()) | places
        return event

    def run(self, rank: int, steps: Generator[Any, Any, None]) -> Process:
        """Run the process of a rank, and note what it waits for."""
        record = self.recorder.record_of(rank)
        if record is None:
            return super().run(rank, steps)
        return super().run(rank, self._followed(rank, record, self.recorder.first_thread(rank), steps))

    def _followed(
        self, rank: int, record: RankRecord, thread: _Thread, steps: Generator[Any, Any, None]
    ) -> Generator[Event, Any, None]:
        value = None
        while True:
            outer, record.thread = record.thread, thread
            try:
                event = steps.send(value)
            except StopIteration:
                return
            finally:
                record.thread = outer
            value = yield event
            outer, record.thread = record.thread, thread
            record.await_all(record.of(event))
            record.thread = outer

    def _added(self, record: RankRecord, op: Operation, after: frozenset[int]) -> RecordedNode | None:
        """Add an operation that is about to start, if it does anything."""
        if not isinstance(op, Recordable) or self._is_trivial(op):
            return None
        stream = _stream(op, op.rank)
        needs = record.needed([*after, record.latest.get(stream), None if isinstance(op, Recv) else record.computed])
        node = record.add(op, needs)
        if isinstance(op, Compute):
            record.computed = node.place
        elif isinstance(op, Collective | HostWork):
            record.latest[stream] = node.place
        self.recorder.expect(node, op.rank)
        return node

    def _is_trivial(self, op: Recordable) -> bool:
        """Whether an operation ends at once without an effect."""
        if isinstance(op, Collective):
            return self.communicator(op.group).trivial(op.nbytes)
        return isinstance(op, HostWork) and not op.nbytes


def _ends(record: RankRecord, node: RecordedNode | None, event: Event) -> Event:
    """Note the event with which an operation ends; only a receipt has no other time."""
    if node is not None:
        record.ended_by[event] = record.ended_by.get(event, frozenset()) | {node.place}
        if isinstance(node.op, Recv):
            node.started_s = node.ended_s = event.env.now
            if event.callbacks is not None:
                event.callbacks.append(lambda _: _arrived(node, event.env.now))
    return event


def _arrived(node: RecordedNode, now_s: float) -> None:
    node.ended_s = now_s
