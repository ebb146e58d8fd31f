"""An executor carries out operations on a platform: one computation, one communication, one way to run passes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf, isinf
from typing import Any

from simpy.events import Event, Process

from simsys.executors.communication.base import Communication
from simsys.executors.computation import Stepwise
from simsys.executors.core import Core
from simsys.executors.cycles import Cycles
from simsys.executors.deadlock import Processes, deadlock, ranks_shown
from simsys.executors.execution_model import ExecutionModel
from simsys.executors.host import Hosts
from simsys.executors.iterations.played import PlayedPrograms
from simsys.executors.own_work import own_process
from simsys.executors.steps.serving_passes import ServingPasses
from simsys.executors.streams import Stream
from simsys.ops import (
    Allocate,
    Collective,
    Compute,
    Forward,
    HostWork,
    Overlapped,
    Pipelined,
    Program,
    Recv,
    Release,
    Send,
    Transfer,
)
from simsys.platform.ecmp_collisions import Collision
from simsys.platform.partition import Hardware
from simsys.probes import Probes


@dataclass(frozen=True)
class Combination:
    """The components that make an executor; called with the arguments of `Executor`, it makes one.

    Args:
        computation: How ranks compute.
        communication: How transfers are carried out.
        passes: How serving teams pass batches through models.
        programs: How ranks run the passes of training.
        one_per_role: Whether the first rank of a role runs a process for all of it, instead of each rank for itself.
        repeats: Whether equal training iterations may be repeated instead of simulated.
    """

    computation: type[Stepwise]
    communication: type[Communication]
    passes: type[ServingPasses]
    programs: type[PlayedPrograms] = PlayedPrograms
    one_per_role: bool = False
    repeats: bool = False

    def __call__(
        self,
        platform: Hardware,
        model: ExecutionModel,
        roles: Sequence[Sequence[int]],
        probes: Probes | None = None,
    ) -> Executor:
        """An executor with these components; arguments as for `Executor`."""
        return Executor(self, platform, model, roles, probes)


class Executor(Core):
    """Carries out operations on a platform.

    Args:
        combination: Its components.
        platform: The hardware.
        model: Overheads and algorithms of the software stack.
        roles: Sets of ranks that do the same work at the same time.
        probes: Observers.
    """

    def __init__(
        self,
        combination: Combination,
        platform: Hardware,
        model: ExecutionModel,
        roles: Sequence[Sequence[int]],
        probes: Probes | None = None,
    ) -> None:
        super().__init__(
            platform,
            model,
            roles,
            probes if probes is not None else Probes(),
            one_per_role=combination.one_per_role,
            queues=combination.communication.queues,
            joins_steps=combination.communication.joins_steps,
        )
        self.may_repeat = combination.repeats and self.own is None
        """Whether equal training iterations may be repeated instead of simulated."""
        self.firsts_alike: bool | None = None
        """Whether the first training iteration of each kind is like later ones: from another run, or noted by this."""
        self.alone_until_s: Callable[[], float] = lambda: inf
        """Until when no transfers of other jobs are on its links, as known now; now or earlier if some are."""
        self.cycles = Cycles(self)
        """Equal micro-batches of an iteration that need not be simulated."""
        self.steps_of = self.cycles.places
        self._shares: dict[Collective, float] = {}
        self._hosts = Hosts(platform, self.probes)
        self._processes = Processes(self.env)
        self.computation = combination.computation(self)
        """How ranks compute."""
        self.communication = communication = combination.communication(self)
        """How transfers are carried out."""
        self.contention = communication.contention
        """How links are shared, for results."""
        self._run_collective = communication.run_collective
        self._passes = passes = combination.passes(self, communication)
        self._programs = programs = combination.programs(self, communication)
        # The verbs of teams and ranks that a component carries out.
        self.stepper, self.passes = passes.stepper, passes.passes
        self.drafting, self.pipeline, self.lockstep = passes.drafting, passes.pipeline, passes.lockstep
        self.stop, self.carry_out = passes.stop, programs.carry_out
        self._handlers |= self._verbs()
        if self.own is not None:
            self._handlers = self.own.ordered(self._handlers)

    def _verbs(self) -> dict[type, Callable[[Any], Event]]:
        """The function that starts each kind of operation."""
        return {
            Compute: self.computation.compute,
            Collective: self.collective,
            Overlapped: self.overlapped,
            Forward: self._passes.forward,
            Pipelined: self._passes.pipelined,
            Transfer: self.communication.transfer,
            Send: self.communication.send,
            Recv: self.recv,
            HostWork: self.host_work,
            Allocate: self.allocate,
            Release: self.release,
            Program: self._programs.program,
        }

    def share(self, op: Collective) -> None:
        """Slow a rank's next computation down by an overlapped collective.

        A computation of C seconds with an overlapped collective of T seconds then needs C + share · T, if this is
        longer than T; otherwise the collective decides. T is the time of the group alone on idle links.
        """
        if self.model.communication_share:
            self.in_order(op.rank, lambda: self._share(op))

    def _share(self, op: Collective) -> None:
        lost_s = self._shares.get(op)
        if lost_s is None:
            seconds = self.communicator(op.group).plan(op.kind, op.nbytes).seconds(op.nbytes)
            lost_s = self._shares[op] = self.model.communication_share * seconds
        self.platform.devices[op.rank].lost_s += lost_s

    def start_after(self, op: Collective | HostWork, event: Event) -> Event:
        """Join a collective or let the host work when `event` has fired, as on a stream that waits for another one."""
        if self.own is not None:
            return self.own.after(op.rank, lambda: self._start_after(op, event))
        return self._start_after(op, event)

    def _start_after(self, op: Collective | HostWork, event: Event) -> Event:
        if isinstance(op, HostWork):
            return self.host_work(op, event)
        if self.communicator(op.group).trivial(op.nbytes):
            return event
        stream = self.streams.setdefault((op.rank, op.group), Stream(self.env, self._join))
        return stream.issue(op, self.now(op.rank), event)

    def wait(self, rank: int, events: Iterable[Event]) -> Event:
        """An event that fires when all `events` have."""
        pending = [event for event in events if not event.processed]
        if not pending:
            return self.env.done
        return pending[0] if len(pending) == 1 else self.env.all_of(pending)

    def collective(self, op: Collective) -> Event:
        """Join a collective; it starts when every member has joined and the group's last one has ended."""
        if self.communicator(op.group).trivial(op.nbytes):
            return self.env.done
        stream = self.streams.get((op.rank, op.group)) if self.streams else None
        if stream is not None and stream.held_up:
            return stream.issue(op, self.now(op.rank))
        return self._join(op, self.now(op.rank))

    def host_work(self, op: HostWork, after: Event | None = None) -> Event:
        """Let the rank's host work, after the passes that have been issued."""
        self._passes.catch_up(op.rank)
        return self._hosts.issue(op, self.now(op.rank), after)

    def _join(self, op: Collective, ready_s: float) -> Event:
        meeting = self.communicator(op.group).meetings.join(op, ready_s)
        if meeting.missing == 0:
            self._run_collective(meeting, meeting.ready_s)
        return meeting.event

    def overlapped(self, op: Overlapped) -> Event:
        """Join the collective as soon as the rank is ready, and compute meanwhile."""
        exchanged = self.start(op.collective)
        return self.wait(op.rank, (exchanged, self.start(op.compute)))

    def recv(self, op: Recv) -> Event:
        """Wait for a message; the event's value is when it was sent."""
        event = self.mail.event(op.src, op.rank, op.tag, receiving=True)
        if self.probes.waited and not event.processed:
            started_s = self.now(op.rank)
            event.callbacks.append(lambda arrived: self._tell_wait(op, started_s, arrived.value))
        return event

    def _tell_wait(self, op: Recv, started_s: float, sent_s: float) -> None:
        if self.env._now > started_s:
            for hook in self.probes.waited:
                hook(op, started_s, sent_s, self.env._now)

    def allocate(self, op: Allocate) -> Event:
        """Allocate memory at the current time."""
        self.platform.devices[op.rank].memory.allocate(op.name, op.nbytes)
        self.tell_memory(op.rank, self.now(op.rank))
        return self.env.done

    def release(self, op: Release) -> Event:
        """Give memory back; at once."""
        self.platform.devices[op.rank].memory.free(op.name, op.nbytes)
        self.tell_memory(op.rank, self.now(op.rank))
        return self.env.done

    def undisturbed(self, now_s: float) -> bool:
        """Whether neither the hardware nor other jobs can change the time of any work from now on."""
        return isinf(self.platform.next_change_s(now_s)) and isinf(self.alone_until_s())

    def run(self, rank: int, steps: Generator[Any, Any, None]) -> Process:
        """Run the process of a rank."""
        return self._processes.start(rank, steps if self.own is None else own_process(self.own, rank, steps))

    def sent_bytes(self) -> list[float]:
        """Traffic of links, and bytes sent by account of the communication graph."""
        return [*self.communication.counters(), *super().sent_bytes()]

    def count_again(
        self, ranks: Sequence[int], count: int, *, busy_s: Sequence[float], sent_bytes: Sequence[float]
    ) -> None:
        """As `Clocks.count_again`; links carry as much again."""
        carried = len(self.communication.counters())
        self.communication.repeat(sent_bytes[:carried], count)
        super().count_again(ranks, count, busy_s=busy_s, sent_bytes=sent_bytes[carried:])

    def warnings(self) -> list[str]:
        """Warnings about inaccurate or avoidably long times of a run, such as colliding hashes of paths."""
        worst: dict[str, Collision] = {}
        for group, communicator in self._communicators.items():
            for kind, found in communicator.collisions():
                name = f"{kind} along the {group.axis} axis"
                if name not in worst or found.slower > worst[name].slower:
                    worst[name] = found
        collisions = [f"transfers of {name} collide: {found}" for name, found in worst.items()]
        return [*collisions, *self.communication.warnings()]

    def check_finished(self) -> None:
        """Raise DeadlockError if something still waits when nothing can happen any more.

        The message names operations that wait for a partner, and where the ranks' processes wait.
        """
        self.tell_all()
        for check in self._checks:
            check()
        error = deadlock(self._unmatched(), self._processes)
        if error is not None:
            raise error

    def _unmatched(self) -> Iterator[str]:
        """Collectives that some rank has not joined, and messages that were not sent."""
        for group, communicator in self._communicators.items():
            members = sorted({self._representative[rank] for rank in group.ranks})
            for meeting, absent in communicator.meetings.waiting(members):
                op = meeting.op
                yield f"{op.kind} {op.name!r} of {ranks_shown(group.ranks)}: {ranks_shown(absent)} never joined"
        for src, dst, tag in self.mail.awaited():
            yield f"rank {dst} waits for a message from rank {src} (tag {tag!r}) that was never sent"
