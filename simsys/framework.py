"""The extension point: base classes of framework modules, and how they get their names.

A module is one file. It defines operations with the verbs of its `Rank` (or `Team`). The executor decides their
duration and number of events, so a file runs at every level of detail.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from simsys.collectives import CollectiveKind
from simsys.config.base import Configurable, FrozenModel
from simsys.ops import Pass, PassOperation
from simsys.parallel.layout import Group
from simsys.parallel.pipeline_schedule import Action, ActionKind, Schedule, passes, require_one_chunk
from simsys.parallel.plan import Block, TrainingPlan
from simsys.parallel.training_memory import Shards, State
from simsys.rank import Rank
from simsys.registry import Registry
from simsys.serving.fetching import FetchingScheduler
from simsys.serving.phases import Chunk, DecodePhase, PrefillPhase
from simsys.serving.queues import OrderedQueue, Queue, SharedQueue, of_first_only
from simsys.serving.router import Router
from simsys.serving.scheduler import Scheduler
from simsys.serving.sequences import Sequences
from simsys.teams import Team

if TYPE_CHECKING:
    from simpy.events import Event

    from simsys.serving.engine import Engine
else:
    Event = Engine = Any  # a module names these types without importing SimPy

Steps = Generator[Any, Any, None]
"""The process of a module: a generator that yields the events it waits for."""

FRAMEWORKS = Registry(
    "framework module",
    "frameworks",
    "simsys.frameworks",
    helpers=("offload", "pass_descriptions", "whole_prompts"),
    aliases={"1f1b": "one_f_one_b", "interleaved_1f1b": "interleaved", "zb_h1": "zero_bubble"},
)
register = FRAMEWORKS.register
"""Class decorator: ``@register("ddp")`` makes a module known to experiment files."""


class OverlappedCollectives:
    """Collectives of a rank that overlap with its next computation and slow it down.

    Args:
        rank: The verbs.
    """

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.waiting: list[tuple[CollectiveKind, float, str | Group]] = []

    def collective(
        self, kind: CollectiveKind, nbytes: float, *, over: str | Group, name: str, after: Event | None = None
    ) -> Event:
        """Start a collective, as `Rank.collective`; without computation before `clear`, it has no effect."""
        self.waiting.append((kind, nbytes, over))
        return self.rank.collective(kind, nbytes, over=over, name=name, after=after)

    def take(self) -> None:
        """Add the slowdown by these collectives to the next computation."""
        for kind, nbytes, over in self.waiting:
            self.rank.share(kind, nbytes, over=over)
        self.waiting.clear()

    def clear(self) -> None:
        """Forget the collectives: no computation overlaps with them any more."""
        self.waiting.clear()


class DataParallel(Configurable):
    """What data parallelism does around the blocks of a training step; the base does nothing.

    One instance per rank. A hook may start communication with the verbs of ``self.rank``; if it returns an event, the
    step waits for it.

    Args:
        rank: The verbs.
        plan: The work of one training step on this rank; another one from a step on at which the batch changes.
        options: The module's settings.
    """

    same_every_step: ClassVar[bool] = False
    """True if every step after the first is the same, so that equal iterations need not be simulated one by one."""

    same_first_step: bool = False
    """True if the first step, too, is like the others, provided that nothing is under way at its end: then one of the
    equal iterations is simulated instead of two."""

    same_every_micro_batch: ClassVar[bool] = False
    """True if the hooks do the same for every micro-batch between the first and the last, and nothing is carried over
    from one micro-batch to the next but communication under way: then equal micro-batches in a row need not be
    simulated one by one."""

    every_micro_batch: ClassVar[bool] = True
    """False if nothing happens before gradients are complete, as in DDP: then the passes before can be planned."""

    after_passes: bool = False
    """True if nothing happens before all passes of a step have ended: then all of them can be planned, and
    `after_backward` of the blocks is called afterwards."""

    def __init__(self, rank: Rank, plan: TrainingPlan, options: Any) -> None:
        self.rank = rank
        self.plan = plan
        self.options = options

    def begin_pass(self, blocks: Sequence[Block], *, forward: bool, last_micro_batch: bool) -> Event | None:
        """A micro-batch is about to pass `blocks`, in this order, forward or backward."""

    def before_forward(self, block: Block) -> Event | None:
        """A block is about to run forward."""

    def after_forward(self, block: Block) -> Event | None:
        """A block has run forward."""

    def before_backward(self, block: Block, *, last_micro_batch: bool) -> Event | None:
        """A block is about to run backward."""

    def after_backward(self, block: Block, *, last_micro_batch: bool) -> Event | None:
        """A block's gradients are there; with gradient accumulation, complete in the last micro-batch."""

    def finish(self) -> Event | Steps | None:
        """All backward passes are done; the optimizer comes next. May be a generator of the events to wait for."""

    def update(self) -> Event:
        """Update this rank's share of the weights; by default its GPU does."""
        return self.rank.compute(self.plan.optimizer, name="optimizer")

    def after_optimizer(self) -> Event | None:
        """This rank's share of the weights is updated; the step ends."""

    @classmethod
    def shards(cls, options: Any, ranks: int) -> Shards:
        """Number of the `ranks` data-parallel ranks that divide each model state; by default 1.

        Raises:
            UsageError: If the options do not fit this number of ranks.
        """
        return Shards()

    @classmethod
    def copied_bytes_per_weight(cls, options: Any, ranks: int, weight_bytes: float) -> tuple[float, float]:
        """Bytes that the device moves for each weight in the forward and in the backward pass, beside the passes.

        They copy weights from, and gradients to, communication buffers; by default none.
        """
        return 0.0, 0.0

    @classmethod
    def buffer_bytes(cls, options: Any, gradient_bytes: float) -> float:
        """Bytes of communication buffers on each rank, in addition to `gradient_bytes` of gradients."""
        return 0.0


class TrainingFramework(ABC):
    """One training step of one rank, as a process.

    Args:
        rank: The verbs.
        plan: The work of the step.
        data_parallel: What happens around the blocks.
        schedule: The order of micro-batches in the pipeline.
    """

    def __init__(self, rank: Rank, plan: TrainingPlan, data_parallel: DataParallel, schedule: Schedule) -> None:
        self.rank = rank
        self.plan = plan
        self.data_parallel = data_parallel
        self.schedule = schedule

    def load(self, plan: TrainingPlan) -> None:
        """Continue with another plan, such as one with larger batches; called between two steps."""
        self.plan = self.data_parallel.plan = plan

    @abstractmethod
    def step(self) -> Steps:
        """The process of one iteration."""


__all__ = [
    "FRAMEWORKS",
    "Action",
    "ActionKind",
    "Block",
    "Chunk",
    "CollectiveKind",
    "DataParallel",
    "DecodePhase",
    "Engine",
    "Event",
    "FetchingScheduler",
    "FrozenModel",
    "Group",
    "OrderedQueue",
    "OverlappedCollectives",
    "Pass",
    "PassOperation",
    "PrefillPhase",
    "Queue",
    "Rank",
    "Router",
    "Schedule",
    "Scheduler",
    "Sequences",
    "Shards",
    "SharedQueue",
    "State",
    "Steps",
    "Team",
    "TrainingFramework",
    "TrainingPlan",
    "of_first_only",
    "passes",
    "register",
    "require_one_chunk",
]
