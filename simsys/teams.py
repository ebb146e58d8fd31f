"""Teams with several groups or models: pipelines, and draft models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from simsys.model.batch import Batch
from simsys.model.speculation import Speculation
from simsys.ops import Forward, Pipelined
from simsys.parallel.layout import Group
from simsys.parallel.passes import ForwardPass
from simsys.rank import Team
from simsys.starter import Drafting, Starter, Stepper

if TYPE_CHECKING:
    from simpy.events import Event


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
