"""What all levels of detail share: starting operations, meeting in collectives, messages, memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, ClassVar

from simpy.events import Event, Process

from simsys.costs.compute_speed import ComputeSpeed
from simsys.costs.pass_cost import PassCost
from simsys.executors.communicator import Communicator
from simsys.executors.deadlock import Processes, deadlock, ranks_shown
from simsys.executors.execution_model import ExecutionModel
from simsys.executors.host import Hosts
from simsys.executors.images import Images
from simsys.executors.mail import Mail
from simsys.executors.meeting import Meeting, check_group
from simsys.executors.steps.passes import NAME as STEP
from simsys.executors.steps.passes import Passes, PassOn
from simsys.executors.streams import Stream
from simsys.executors.tasks import Tasks
from simsys.ops import (
    Allocate,
    Collective,
    Compute,
    Forward,
    HostWork,
    Operation,
    Overlapped,
    Pass,
    Pipelined,
    Program,
    Recv,
    Release,
    Send,
    Transfer,
)
from simsys.parallel.layout import Group
from simsys.parallel.passes import ForwardPass
from simsys.platform.collisions import Collision
from simsys.platform.part import Hardware
from simsys.probes import Probes
from simsys.starter import Drafting, Stepper


class Executor(Tasks, ABC):
    """Carries out operations on a platform; one subclass per level of detail.

    Args:
        platform: The hardware.
        model: Overheads and algorithms of the software stack.
        roles: Sets of ranks that do the same work at the same time.
        probes: Observers.
    """

    def __init__(
        self,
        platform: Hardware,
        model: ExecutionModel,
        roles: Sequence[Sequence[int]],
        probes: Probes | None = None,
    ) -> None:
        super().__init__(platform, probes if probes is not None else Probes())
        self.model = model
        if self.own is not None:  # processes of the user's own may request the GPU of any rank
            roles, self.may_repeat = [[rank] for role in roles for rank in role], False
        self._stand_in = {rank: self.stand_in(role, rank) for role in roles for rank in role}
        self.images = Images(self._stand_in)
        """The groups that the simulated ones stand for."""
        self.stands_for = stands_for = dict[int, list[int]]()
        """By rank that runs a process, those that it stands for, itself included."""
        for rank, stand_in in self._stand_in.items():
            stands_for.setdefault(stand_in, []).append(rank)
        self.conditions = ComputeSpeed(
            platform.devices, model.per_layer_s, model.launches.per_layer_s, model.jitter, stands_for
        )
        self._communicators: dict[Group, Communicator] = {}
        self._shares: dict[Collective, float] = {}
        self._streams: dict[tuple[int, Group], Stream] = {}
        self._hosts = Hosts(platform, self.probes)
        self._processes = Processes(self.env)
        self._pass_costs: dict[tuple[ForwardPass, int, int, int], PassCost] = {}
        self._surroundings: dict[Group, int] = {}
        self._signatures: dict[tuple[object, ...], int] = {}
        self._checks: list[Callable[[], None]] = []
        self._tells: list[Callable[[], None]] = []
        self.mail = Mail(self.env, self._stand_in)
        self._handlers: dict[type, Callable[[Any], Event]] = {
            Compute: self.compute,
            Collective: self.collective,
            Overlapped: self.overlapped,
            Forward: self.forward,
            Pipelined: self.pipelined,
            Transfer: self.transfer,
            Send: self.send,
            Recv: self.recv,
            HostWork: self.host_work,
            Allocate: self.allocate,
            Release: self.release,
            Program: self.program,
        }
        if self.own is not None:
            self._handlers = self.own.ordered(self._handlers)

    aggregates: ClassVar[bool] = False
    """Whether operators cost what the macro operations of a model say (`Model.aggregated`), or what its layers say."""

    may_repeat: bool = False
    """Whether identical training iterations may be told instead of simulated."""

    firsts_alike: bool | None = None
    """Whether the first training iteration of each kind is like later ones: from another run, or noted by this one."""

    joins_steps: ClassVar[bool] = False
    """Whether equal steps of a collective that follow one another are carried out as one."""

    contention: str
    """How this level shares links, for results."""

    def share(self, op: Collective) -> None:
        """Let a collective that goes on beside a rank's next computation take its share of the GPU from that.

        A computation of C seconds beside a collective of T then takes C + share · T, if that is longer than T; if not,
        the collective is what is waited for. T is the time of the group alone on idle links.
        """
        if self.model.communication_share:
            self.in_order(op.rank, lambda: self._share(op))

    def _share(self, op: Collective) -> None:
        lost_s = self._shares.get(op)
        if lost_s is None:
            seconds = self.communicator(op.group).plan(op.kind, op.nbytes).seconds(op.nbytes)
            lost_s = self._shares[op] = self.model.communication_share * seconds
        self.platform.devices[op.rank].lost_s += lost_s

    @staticmethod
    @abstractmethod
    def stand_in(role: Sequence[int], rank: int) -> int:
        """The rank that runs a process for `rank`."""

    @abstractmethod
    def compute(self, op: Compute) -> Event:
        """Run kernels on one GPU."""

    @abstractmethod
    def run_collective(self, meeting: Meeting, ready_s: float) -> None:
        """Carry out a collective whose members are all there; must fire ``meeting.event``."""

    @abstractmethod
    def forward(self, op: Forward) -> Event:
        """Pass a batch through a model on a team."""

    @abstractmethod
    def pipelined(self, op: Pipelined) -> Event:
        """Pass a batch through the stages of a pipeline."""

    @abstractmethod
    def send(self, op: Send) -> Event:
        """Carry a message to another rank."""

    @abstractmethod
    def transfer(self, op: Transfer) -> Event:
        """Carry messages from one team to another, from now on; fires when all have arrived."""

    def stepper(self, team: Group, plan: ForwardPass, done: Callable[[int], None]) -> Stepper:
        """What carries out consecutive steps of a serving team; `done` is called after a run, with its number."""
        return self.passes(
            team.ranks[0], lambda batch, host_s: self.start(Forward(team, plan, batch, host_s, STEP)), done
        )

    def passes(self, rank: int, forward: PassOn, done: Callable[[int], None]) -> Stepper:
        """What carries out steps that are more than one pass of one team, one after another.

        Args:
            rank: The first rank of the team.
            forward: Carries out a step.
            done: Called after each, with 1.
        """
        self.serves()
        return Passes(self, rank, forward, done, beside=self.model.async_scheduling)

    def drafting(self, team: Group, drafting: Drafting, forward: PassOn, done: Callable[[int], None]) -> Stepper:
        """What carries out steps of a team that drafts tokens and verifies them: one after another."""
        return self.passes(team.ranks[0], forward, done)

    def pipeline(
        self,
        stages: Sequence[tuple[Group, ForwardPass]],
        parts: int,
        rank: int,
        forward: PassOn,
        done: Callable[[int], None],
    ) -> Stepper:
        """What carries out consecutive steps of one of the engines that share the stages of a pipeline.

        Args:
            stages: The ranks and one rank's share of each stage.
            parts: Into how many parts hidden states are divided.
            rank: The first rank of the engine.
            forward: Carries out a step.
            done: Called after a run of steps, with their number.
        """
        self.serves()
        return Passes(self, rank, forward, done)

    def program(self, op: Program) -> Event:
        """Run the passes one by one."""
        return self.env.process(self._play(op))

    def _play(self, op: Program) -> Generator[Event, Any, None]:
        for each, micro_batch in zip(op.passes, op.micro_batches, strict=True):
            if each.receive is not None:
                yield self.start(each.receive.of(micro_batch))
            for change in each.takes:
                self.start(change)
            self.synchronize(op.rank)
            yield from self.carry_out(each)
            for given in each.gives:
                self.start(given)
            if each.send is not None:
                sent = self.start(each.send.of(micro_batch))
                if each.waits:
                    yield sent

    def carry_out(self, each: Pass) -> Generator[Event, Any, None]:
        """Run the operations of a pass in turn, without its messages and memory."""
        for operation in each.run:
            yield self.start(operation)

    def ranks(self) -> list[int]:
        """The ranks that run a process of their own."""
        return sorted(set(self._stand_in.values()))

    def start(self, op: Operation) -> Event:
        """Start any operation: the single entry of all verbs."""
        return self._handlers[op.__class__](op)

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
        stream = self._streams.setdefault((op.rank, op.group), Stream(self.env, self._join))
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
        stream = self._streams.get((op.rank, op.group)) if self._streams else None
        if stream is not None and stream.held_up:
            return stream.issue(op, self.now(op.rank))
        return self._join(op, self.now(op.rank))

    def host_work(self, op: HostWork, after: Event | None = None) -> Event:
        """Let the rank's host work."""
        return self._hosts.issue(op, self.now(op.rank), after)

    def _join(self, op: Collective, ready_s: float) -> Event:
        meeting = self.communicator(op.group).meetings.join(op, ready_s)
        if meeting.missing == 0:
            self.run_collective(meeting, meeting.ready_s)
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
        """Take memory; at once."""
        self.platform.devices[op.rank].memory.allocate(op.name, op.nbytes)
        self._tell_memory(op.rank, self.now(op.rank))
        return self.env.done

    def release(self, op: Release) -> Event:
        """Give memory back; at once."""
        self.platform.devices[op.rank].memory.free(op.name, op.nbytes)
        self._tell_memory(op.rank, self.now(op.rank))
        return self.env.done

    def communicator(self, group: Group) -> Communicator:
        """The communicator of a group, made on first use."""
        found = self._communicators.get(group)
        if found is None:
            check_group(group, len(self._stand_in))
            members = {self._stand_in[rank] for rank in group.ranks}
            found = self._communicators[group] = Communicator(
                group,
                len(members),
                self.platform.network,
                self.model.algorithm,
                self.env,
                self.images,
                joined=self.joins_steps,
            )
        return found

    def pass_cost(self, op: Forward) -> PassCost:
        """The cost model of a forward pass that begins now, made on first use; on equal links teams share it."""
        start_s, network = self.now(op.rank), self.platform.network
        spec = self.conditions.team_spec(op.team, start_s)
        key = op.plan, id(spec), self._links_of(op.team), network.epoch(start_s)
        found = self._pass_costs.get(key)
        if found is None:
            found = self._pass_costs[key] = PassCost(
                op.plan, spec, self.model.precision, self.model.per_layer_s, self.model.launches
            )
        return found

    def _links_of(self, team: Group) -> int:
        """A number that is the same for teams whose collectives take equally long on idle links."""
        found = self._surroundings.get(team)
        if found is None:
            signature = self.platform.network.signature(team.ranks)
            found = self._surroundings[team] = self._signatures.setdefault(signature, len(self._signatures))
        return found

    def handed_on_bytes(self, op: Pipelined, stage: int) -> float:
        """Bytes that each rank of a stage sends to the next one."""
        return op.elements(stage) * self.model.precision.activation_bytes

    def run(self, rank: int, steps: Generator[Any, Any, None]) -> Process:
        """Run the process of a rank."""
        return self._processes.start(rank, self.with_own_work(rank, steps))

    def stop(self) -> None:
        """Serving passes that are under way do not go on: GPUs are free, and were busy with those that have ended."""

    def at_end(self, check: Callable[[], None]) -> None:
        """Let `check` be called when nothing can happen any more; it raises if something is amiss."""
        self._checks.append(check)

    def at_result(self, tell: Callable[[], None]) -> None:
        """Let `tell` be called before anybody asks the probes what they have heard."""
        self._tells.append(tell)

    def warnings(self) -> list[str]:
        """What makes the times of a run doubtful or avoidably long, such as colliding hashes of paths."""
        worst: dict[str, Collision] = {}
        for group, communicator in self._communicators.items():
            for kind, found in communicator.collisions():
                name = f"{kind} along the {group.axis} axis"
                if name not in worst or found.slower > worst[name].slower:
                    worst[name] = found
        return [f"transfers of {name} collide: {found}" for name, found in worst.items()]

    def tell_all(self) -> None:
        """Let the probes hear what they have not been told yet."""
        for tell in self._tells:
            tell()

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
            members = sorted({self._stand_in[rank] for rank in group.ranks})
            for meeting, absent in communicator.meetings.waiting(members):
                op = meeting.op
                yield f"{op.kind} {op.name!r} of {ranks_shown(group.ranks)}: {ranks_shown(absent)} never joined"
        for src, dst, tag in self.mail.awaited():
            yield f"rank {dst} waits for a message from rank {src} (tag {tag!r}) that was never sent"

    def _tell_memory(self, rank: int, now_s: float) -> None:
        for hook in self.probes.memory:
            hook(rank, self.platform.devices[rank].memory.in_use_bytes, now_s)
