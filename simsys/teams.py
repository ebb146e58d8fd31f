"""The verbs of serving: a `Team` (one replica), the stages of a pipeline, ranks in lock-step, or a team that drafts.

As in `simsys.rank`, every verb starts an operation and returns an event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from simsys.model.batch import Batch
from simsys.model.speculation import Speculation
from simsys.ops import Forward, HostChannel, HostWork, Pipelined, Transfer
from simsys.parallel.layout import Group
from simsys.parallel.lockstep import LockStep
from simsys.parallel.passes import ForwardPass
from simsys.starter import Drafting, Starter, Stepper

if TYPE_CHECKING:
    from simpy.events import Event


class Team:
    """The ranks of one serving replica, in lockstep under one scheduler.

    Args:
        group: The ranks.
        plan: One rank's share of the model.
        executor: Carries out the operations.
    """

    def __init__(self, group: Group, plan: ForwardPass, executor: Starter) -> None:
        self.group = group
        self.plan = plan
        self._executor = executor

    @property
    def now(self) -> float:
        """Simulated time in seconds."""
        return self._executor.now(self.group.ranks[0])

    def steps(self, done: Callable[[int], None]) -> Stepper:
        """What carries out consecutive steps; `done` is called with their number each time some have ended."""
        return self._executor.stepper(self.group, self.plan, done)

    def pass_s(self, batch: Batch) -> float:
        """Time of a pass on idle links, without host work, if it began now (s)."""
        return self._executor.pass_s(self.group, self.plan, batch)

    def forward(self, batch: Batch, *, host_s: float = 0.0, name: str = "forward") -> Event:
        """Pass a batch through the model on all ranks, `host_s` seconds of host work first."""
        return self._executor.start(Forward(self.group, self.plan, batch, host_s, name))

    def to_host(self, nbytes: Mapping[int, float], *, name: str = "swap_out", after: Event | None = None) -> Event:
        """Copy from the GPUs to their hosts, all ranks at the same time.

        Args:
            nbytes: Bytes by rank.
            name: Purpose of the copies.
            after: An event before which the copies must not begin.
        """
        return self._copy(HostChannel.TO_HOST, nbytes, name, after)

    def from_host(self, nbytes: Mapping[int, float], *, name: str = "swap_in", after: Event | None = None) -> Event:
        """Copy from the hosts to their GPUs; as `to_host`."""
        return self._copy(HostChannel.FROM_HOST, nbytes, name, after)

    def _copy(self, channel: HostChannel, nbytes: Mapping[int, float], name: str, after: Event | None) -> Event:
        ops = [HostWork(rank, channel, size, name) for rank, size in nbytes.items()]
        start = self._executor
        copies = [start.start(op) if after is None else start.start_after(op, after) for op in ops]
        return self._executor.wait(self.group.ranks[0], copies)

    def beside(self, plan: ForwardPass) -> Team:
        """The same ranks with another model, such as an encoder beside a language model."""
        return Team(self.group, plan, self._executor)

    @property
    def groups(self) -> tuple[Group, ...]:
        """The ranks of each pipeline stage."""
        return (self.group,)

    def send(self, to: Team, nbytes: Sequence[float], *, name: str = "transfer") -> Event:
        """Send data of this team to another team; fires when all has arrived.

        Args:
            to: A team with as many stages.
            nbytes: By stage, bytes received by each rank of that team.
            name: Purpose of the transfer.
        """
        sent = []
        for source, target, each in zip(self.groups, to.groups, nbytes, strict=True):
            part = each * target.size / max(source.size, target.size)
            sent.append(self._executor.start(Transfer(source, target, part, name)))
        return self._executor.wait(self.group.ranks[0], sent)


class PipelineTeam(Team):
    """The stages of a replica: batches pass them one after another.

    A batch may enter a stage as soon as the previous one has left. So several batches may be in flight: `forward` may
    be called again before its event has fired, and batches leave in the order in which they have entered. The time of
    a step is the sum over all stages and the transfers between them, plus waits for the previous batch.

    Args:
        groups: The ranks of each stage.
        plans: One rank's share of each stage.
        executor: Carries out the operations.
        parts: Number of parts of the hidden states; each rank sends one to its neighbour.
    """

    def __init__(
        self, groups: Sequence[Group], plans: Sequence[ForwardPass], executor: Starter, *, parts: int = 1
    ) -> None:
        super().__init__(groups[0], plans[0], executor)
        self.stages = tuple(zip(groups, plans, strict=True))
        self.parts = parts
        self._engines = 0  # that have been asked for

    @property
    def groups(self) -> tuple[Group, ...]:
        """The ranks of each stage."""
        return tuple(group for group, _ in self.stages)

    def steps(self, done: Callable[[int], None]) -> Stepper:
        """What carries out the steps of the next engine, of which each stage has one."""
        rank = self.groups[self._engines].ranks[0]
        self._engines += 1
        return self._executor.pipeline(self.stages, self.parts, rank, _step_of(self), done)

    def forward(self, batch: Batch, *, host_s: float = 0.0, name: str = "forward") -> Event:
        """Pass a batch through all stages, after `host_s` seconds of host work that overlaps with the GPUs."""
        passes = (
            Forward(group, plan, batch, 0.0 if index else host_s, name)
            for index, (group, plan) in enumerate(self.stages)
        )
        return self._executor.start(Pipelined(tuple(passes), self.parts))


class LockStepTeam(Team):
    """One of the data-parallel ranks of a replica that share their experts and step together.

    Args:
        group: The GPUs of the rank.
        plan: A GPU's share of the model.
        executor: Carries out the operations.
        lockstep: All data-parallel ranks of the replica, and the passes of a step.
        drafting: How each rank drafts tokens, if they do.
    """

    def __init__(
        self,
        group: Group,
        plan: ForwardPass,
        executor: Starter,
        lockstep: LockStep,
        drafting: Drafting | None = None,
    ) -> None:
        super().__init__(group, plan, executor)
        self._lockstep, self._drafting = lockstep, drafting

    def steps(self, done: Callable[[int], None]) -> Stepper:
        """What carries out the steps of this rank, in lock-step with the others."""
        return self._executor.lockstep(self._lockstep, self._drafting, self.group.ranks[0], done)


class DraftingTeam(Team):
    """A team that drafts tokens before it verifies them.

    Args:
        group: The ranks.
        plan: One rank's share of the model.
        executor: Carries out the operations.
        speculation: What is drafted.
        draft: One rank's share of the model that drafts, if one does.
        draft_s: Otherwise, how long each token of a draft takes.
    """

    def __init__(
        self,
        group: Group,
        plan: ForwardPass,
        executor: Starter,
        *,
        speculation: Speculation,
        draft: ForwardPass | None = None,
        draft_s: float = 0.0,
    ) -> None:
        super().__init__(group, plan, executor)
        self._drafting = Drafting(plan, speculation, draft, draft_s)

    def steps(self, done: Callable[[int], None]) -> Stepper:
        """What carries out consecutive steps."""
        return self._executor.drafting(self.group, self._drafting, _step_of(self), done)

    def forward(self, batch: Batch, *, host_s: float = 0.0, name: str = "forward") -> Event:
        """Draft, then pass the batch through the model, `host_s` seconds of host work first."""
        drafting = self._drafting
        for each in drafting.drafts(batch):
            assert drafting.draft is not None
            self._executor.start(Forward(self.group, drafting.draft, each, host_s, "draft"))
            host_s = 0.0
        return super().forward(batch, host_s=host_s + drafting.host_s(batch), name=name)


def _step_of(team: Team) -> Callable[[Batch, float], Event]:
    return lambda batch, host_s: team.forward(batch, host_s=host_s, name="step")
