"""The passes of a step of data-parallel ranks: all ranks go through each of them together.

Without drafts, a step is one pass. With a model that drafts, its passes come first, as many as the rank with most of
them has. A rank without work in a pass, since it has no requests or only prompts, passes a dummy token, as the others
need its experts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from simsys.executors.steps.passes import NAME
from simsys.model.batch import Batch
from simsys.ops import Forward
from simsys.parallel.layout import Group
from simsys.parallel.lockstep import LockStep
from simsys.starter import Drafting
from simsys.sums import ordered_sum


class Work(NamedTuple):
    """The work of a rank in a pass.

    Args:
        place: The rank's place among those that run.
        team: Its GPUs.
        batch: Its batch in the first step.
        more: What each step adds to the next one's batch.
    """

    place: int
    team: Group
    batch: Batch
    more: Batch


class Round(NamedTuple):
    """A pass of all data-parallel ranks.

    Args:
        lockstep: The ranks and the parts of the model.
        works: The work of each rank that has some.
        name: The name of its operations, for observers.
    """

    lockstep: LockStep
    works: list[Work]
    name: str = NAME

    @property
    def most_tokens(self) -> float:
        """Tokens of the rank with most of them."""
        return max(each.batch.tokens for each in self.works)

    def loads(self) -> tuple[Batch, Batch]:
        """Batches for the experts' part and for the exchange."""
        lockstep = self.lockstep
        tokens = [each.batch.tokens for each in self.works]
        mean = lockstep.mean_tokens(ordered_sum(tokens), len(lockstep.teams) - len(tokens))
        return Batch(mean), Batch(lockstep.exchanged_tokens(mean, max(tokens)))

    def forward(self, team: Group, part: str, batch: Batch, host_s: float = 0.0) -> Forward:
        """A pass through a part of the model."""
        return Forward(team, getattr(self.lockstep, part), batch, host_s, self.name)


def rounds_of(lockstep: LockStep, drafting: Drafting | None, works: Sequence[Work]) -> Iterator[Round]:
    """The passes of a step.

    Args:
        lockstep: The ranks, and the parts of the models.
        drafting: How each rank drafts tokens, if they do.
        works: The work of each rank that runs: the batch that its model passes or verifies.
    """
    if drafting is not None and lockstep.draft is not None:
        drafts = [drafting.drafts(each.batch) for each in works]
        for number in range(max(map(len, drafts))):
            own = [
                Work(each.place, each.team, batches[number], drafting.growth(each.more))
                for each, batches in zip(works, drafts, strict=True)
                if number < len(batches)
            ]
            yield Round(lockstep.draft, own, "draft")
    yield Round(lockstep, list(works))


def drafted_s(drafting: Drafting | None, works: Sequence[Work]) -> float:
    """Time before the first pass in which tokens are drafted without a model, of the slowest rank."""
    return max(drafting.host_s(each.batch) for each in works) if drafting is not None else 0.0
