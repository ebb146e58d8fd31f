"""The verbs of training modules: `Rank`, one participant; `simsys.teams` has those of serving.

Every verb starts an operation and returns an event: yield it to wait, keep it to wait later. The level of detail
decides how it is simulated.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from simsys.collectives.base import BARRIER_BYTES, CollectiveKind
from simsys.model.work import Work
from simsys.ops import (
    Allocate,
    Collective,
    Compute,
    HostChannel,
    HostWork,
    Overlapped,
    Pass,
    PassOperation,
    Program,
    Recv,
    Release,
    Send,
)
from simsys.parallel.layout import Group, Layout
from simsys.starter import Starter

if TYPE_CHECKING:
    from simpy.events import Event


class Rank:
    """One participant of a training job, in the verbs of ``torch.distributed``.

    Args:
        index: The rank's number.
        layout: The arrangement of all ranks.
        executor: Carries out the operations.
    """

    def __init__(self, index: int, layout: Layout, executor: Starter) -> None:
        self.index = index
        self.layout = layout
        self._executor = executor
        # Operations are built once and reused.
        self._computes: dict[tuple[Work, str], Compute] = {}
        self._collectives: dict[Hashable, Collective] = {}
        self._allocations: dict[tuple[float, str], Allocate] = {}
        self._releases: dict[tuple[float | None, str], Release] = {}
        self._overlapped: dict[tuple[Compute, Collective], Overlapped] = {}

    @property
    def now(self) -> float:
        """Simulated time in seconds."""
        return self._executor.now(self.index)

    def group(self, over: str) -> Group:
        """The group of this rank of a kind named in `simsys.parallel.layout.GROUPS`."""
        return self.layout.group(self.index, over)

    def compute(self, work: Work, *, name: str = "compute") -> Event:
        """Run kernels on this rank's GPU."""
        return self._executor.start(self.plan_compute(work, name=name))

    def all_reduce(
        self, nbytes: float, *, over: str | Group, name: str = "all_reduce", after: Event | None = None
    ) -> Event:
        """Sum `nbytes` over the ranks of a group."""
        return self.collective(CollectiveKind.ALL_REDUCE, nbytes, over=over, name=name, after=after)

    def all_gather(
        self, nbytes: float, *, over: str | Group, name: str = "all_gather", after: Event | None = None
    ) -> Event:
        """Collect shards; `nbytes` is the whole output."""
        return self.collective(CollectiveKind.ALL_GATHER, nbytes, over=over, name=name, after=after)

    def reduce_scatter(self, nbytes: float, *, over: str | Group, name: str = "reduce_scatter") -> Event:
        """Sum and keep one shard; `nbytes` is the whole input."""
        return self.collective(CollectiveKind.REDUCE_SCATTER, nbytes, over=over, name=name)

    def all_to_all(self, nbytes: float, *, over: str | Group, name: str = "all_to_all") -> Event:
        """Exchange a different part with every member; `nbytes` is this rank's whole send buffer."""
        return self.collective(CollectiveKind.ALL_TO_ALL, nbytes, over=over, name=name)

    def broadcast(self, nbytes: float, *, over: str | Group, name: str = "broadcast") -> Event:
        """Send `nbytes` from the group's first rank to all."""
        return self.collective(CollectiveKind.BROADCAST, nbytes, over=over, name=name)

    def reduce(self, nbytes: float, *, over: str | Group, name: str = "reduce") -> Event:
        """Sum `nbytes` over the ranks of a group, for the group's first rank."""
        return self.collective(CollectiveKind.REDUCE, nbytes, over=over, name=name)

    def barrier(self, *, over: str | Group, name: str = "barrier") -> Event:
        """Wait until all ranks of a group have come here."""
        return self.collective(CollectiveKind.BARRIER, BARRIER_BYTES, over=over, name=name)

    def send_recv(self, nbytes: float, *, over: str | Group, name: str = "send_recv") -> Event:
        """Send `nbytes` to the next member and receive as many from the one before."""
        return self.collective(CollectiveKind.SEND_RECV, nbytes, over=over, name=name)

    def collective(
        self, kind: CollectiveKind, nbytes: float, *, over: str | Group, name: str, after: Event | None = None
    ) -> Event:
        """Take part in a collective.

        Args:
            kind: The kind of collective.
            nbytes: The full buffer.
            over: The group, or a kind of group: a name in `simsys.parallel.layout.GROUPS`.
            name: Purpose of the collective.
            after: An event before which it must not begin, in addition to the computation issued so far, such as a
                collective of another group. Later collectives of the group wait, too.
        """
        op = self.plan_collective(kind, nbytes, over=over, name=name)
        return self._executor.start(op) if after is None else self._executor.start_after(op, after)

    def overlapped(
        self, work: Work, kind: CollectiveKind, nbytes: float, *, over: str | Group, name: str = "overlapped"
    ) -> Event:
        """Compute and take part in a collective at the same time; fires when both are done.

        Args:
            work: The computation.
            kind: The collective.
            nbytes: Its full buffer.
            over: Its group, or the axis of its group.
            name: Purpose of both.
        """
        return self._executor.start(self.plan_overlapped(work, kind, nbytes, over=over, name=name))

    def program(
        self, passes: Iterable[Pass], micro_batches: Iterable[Hashable], *, over: str, name: str = "passes"
    ) -> Event:
        """Run a planned sequence of passes, together with the other ranks of the group along the axis `over`.

        Args:
            passes: The passes of this rank in order, from `plan_pass`.
            micro_batches: For each pass, the micro-batch that it processes.
            over: The axis.
            name: Purpose of the passes.
        """
        group = self.layout.group(self.index, over)
        return self._executor.start(Program(self.index, group, tuple(passes), tuple(micro_batches), name))

    def run(self, each: Pass) -> Generator[Event, Any, None]:
        """Run the operations of a pass in turn, without its messages and memory: ``yield from rank.run(...)``."""
        return self._executor.carry_out(each)

    def steps_of(self, steps: Sequence[tuple[Hashable, Hashable]]) -> Iterator[tuple[int, int]]:
        """Go through a sequence of steps; equal micro-batches in a row need not be simulated one by one.

        A module may use it if it carries nothing over from one micro-batch to the next but work that is in flight.

        Args:
            steps: What the rank does, and for which micro-batch.

        Yields:
            The place of a step, and how many micro-batches have been left out before it. Subtract them from the
            number of the micro-batch in the tags of its messages.
        """
        return self._executor.steps_of(self.index, steps)

    def plan_pass(
        self,
        run: Iterable[PassOperation],
        *,
        receive: tuple[int, Hashable] | None = None,
        send: tuple[int, float, Hashable] | None = None,
        takes: Iterable[tuple[str, float]] = (),
        gives: Iterable[tuple[str, float]] = (),
        waits: bool = False,
    ) -> Pass:
        """A pass of a program, for any micro-batch; create it once and use it for all.

        A message reaches the pass that receives from this rank with the same tag, for the same micro-batch. Outside
        programs, its tag consists of the tag of the pass and the micro-batch: ``rank.recv(src, tag=(tag,
        micro_batch))``.

        Args:
            run: Planned operations.
            receive: Source and tag of the message it waits for.
            send: Destination, bytes and tag of the message it ends with.
            takes: Memory allocated at its beginning, by name.
            gives: Memory freed at its end.
            waits: True if it waits for the delivery of its message.
        """
        return Pass(
            tuple(run),
            None if receive is None else Recv(self.index, *receive, "recv"),
            None if send is None else Send(self.index, *send, "send"),
            tuple(Allocate(self.index, nbytes, name) for name, nbytes in takes if nbytes),
            tuple(Release(self.index, nbytes, name) for name, nbytes in gives if nbytes),
            waits,
        )

    def plan_compute(self, work: Work, *, name: str = "compute") -> Compute:
        """The operation that `compute` starts, for a program."""
        op = self._computes.get((work, name))
        if op is None:
            op = self._computes[work, name] = Compute(self.index, work, name)
        return op

    def plan_collective(self, kind: CollectiveKind, nbytes: float, *, over: str | Group, name: str) -> Collective:
        """The operation that `collective` starts, for a program."""
        key = kind, nbytes, over, name
        op = self._collectives.get(key)
        if op is None:
            group = over if isinstance(over, Group) else self.layout.group(self.index, over)
            op = self._collectives[key] = Collective(self.index, kind, group, nbytes, name)
        return op

    def plan_overlapped(
        self, work: Work, kind: CollectiveKind, nbytes: float, *, over: str | Group, name: str = "overlapped"
    ) -> Overlapped:
        """The operation that `overlapped` starts, for a program."""
        key = self.plan_compute(work, name=name), self.plan_collective(kind, nbytes, over=over, name=name)
        op = self._overlapped.get(key)
        if op is None:
            op = self._overlapped[key] = Overlapped(*key)
        return op

    def send(self, dst: int, nbytes: float, *, tag: Hashable = None, name: str = "send") -> Event:
        """Send `nbytes` to another rank; fires when the last byte has arrived there."""
        return self._executor.start(Send(self.index, dst, nbytes, tag, name))

    def recv(self, src: int, *, tag: Hashable = None, name: str = "recv") -> Event:
        """Wait for the next message from `src` with the same tag."""
        return self._executor.start(Recv(self.index, src, tag, name))

    def to_host(self, nbytes: float, *, name: str = "to_host", after: Event | None = None) -> Event:
        """Copy `nbytes` from the GPU to its host.

        Copies in one direction run in order. They begin when the computation issued so far has ended.

        Args:
            nbytes: Number of bytes.
            name: Purpose of the copy.
            after: An event before which it must not begin; later copies wait, too.
        """
        return self._host(HostChannel.TO_HOST, nbytes, name, after)

    def from_host(self, nbytes: float, *, name: str = "from_host", after: Event | None = None) -> Event:
        """Copy `nbytes` from the host to the GPU; as `to_host`."""
        return self._host(HostChannel.FROM_HOST, nbytes, name, after)

    def update_on_host(self, nbytes: float, *, name: str = "update_on_host", after: Event | None = None) -> Event:
        """Let the host's processors read and write `nbytes` of its memory, such as an optimizer's; as `to_host`."""
        return self._host(HostChannel.UPDATE, nbytes, name, after)

    def allocate(self, nbytes: float, *, name: str) -> Event:
        """Allocate memory in addition to allocations of this name; raises OutOfMemoryError if it does not fit."""
        key = nbytes, name
        op = self._allocations.get(key)
        if op is None:
            op = self._allocations[key] = Allocate(self.index, nbytes, name)
        return self._executor.start(op)

    def release(self, nbytes: float | None = None, *, name: str) -> Event:
        """Free a number of bytes, or all, of the memory of a name."""
        key = nbytes, name
        op = self._releases.get(key)
        if op is None:
            op = self._releases[key] = Release(self.index, nbytes, name)
        return self._executor.start(op)

    def wait(self, events: Iterable[Event]) -> Event:
        """An event that fires when all of `events` have."""
        return self._executor.wait(self.index, events)

    def synchronize(self) -> None:
        """Let the host wait for the GPU: what comes next is launched from then on, not ahead of it."""
        self._executor.synchronize(self.index)

    def share(self, kind: CollectiveKind, nbytes: float, *, over: str | Group) -> None:
        """Slow this rank's next computation down by an overlapped collective.

        Args:
            kind: The kind of collective.
            nbytes: Its full buffer.
            over: Its group, or the axis of its group.
        """
        self._executor.share(self.plan_collective(kind, nbytes, over=over, name="beside"))

    def mark(self, name: str) -> None:
        """Name a phase for the probes; changes nothing."""
        self._executor.mark(self.index, name)

    def _host(self, channel: HostChannel, nbytes: float, name: str, after: Event | None) -> Event:
        op = HostWork(self.index, channel, nbytes, name)
        return self._executor.start(op) if after is None else self._executor.start_after(op, after)
