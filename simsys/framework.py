"""The extension point: base classes of framework modules, and how they get their names.

A module is one file. It says what happens in the verbs of its `Rank` (or `Team`); how long that takes and in
how many events is the executor's business, so the same file runs at every level of detail.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from simsys.config.base import Configurable, FrozenModel
from simsys.parallel.training import Block, TrainingPlan
from simsys.rank import Rank, Team
from simsys.registry import Registry
from simsys.serving.scheduler import Chunk, DecodePhase, PrefillPhase, Scheduler
from simsys.serving.sequences import Sequences

if TYPE_CHECKING:
    from simpy.events import Event
else:
    Event = Any  # a module names the type of what verbs return without importing SimPy

Steps = Generator[Any, Any, None]
"""What a module's process is: a generator that yields the events it waits for."""

FRAMEWORKS = Registry("framework module", "frameworks", "simsys.frameworks")
register = FRAMEWORKS.register
"""Class decorator: ``@register("ddp")`` makes a module known to experiment files."""


class DataParallel(Configurable):
    """What data parallelism does around the blocks of a training step; the base does nothing.

    One instance per rank. A hook may start communication with the verbs of ``self.rank``; if it returns an
    event, the step waits for it before it goes on.

    Args:
        rank: The verbs.
        plan: The work of one training step on this rank.
        options: The module's settings.
    """

    def __init__(self, rank: Rank, plan: TrainingPlan, options: Any) -> None:
        self.rank = rank
        self.plan = plan
        self.options = options

    def before_forward(self, block: Block) -> Event | None:
        """A block is about to run forward."""

    def after_forward(self, block: Block) -> Event | None:
        """A block has run forward."""

    def before_backward(self, block: Block, *, last_micro_batch: bool) -> Event | None:
        """A block is about to run backward."""

    def after_backward(self, block: Block, *, last_micro_batch: bool) -> Event | None:
        """A block's gradients are there; with gradient accumulation, complete in the last micro-batch."""

    def finish(self) -> Event | None:
        """All backward passes are done; the optimizer comes next."""


class TrainingFramework(ABC):
    """One training step of one rank, as a process.

    Args:
        rank: The verbs.
        plan: The work of the step.
        data_parallel: What happens around the blocks.
    """

    def __init__(self, rank: Rank, plan: TrainingPlan, data_parallel: DataParallel) -> None:
        self.rank = rank
        self.plan = plan
        self.data_parallel = data_parallel

    @abstractmethod
    def step(self) -> Steps:
        """The process of one iteration."""


__all__ = [
    "FRAMEWORKS",
    "Block",
    "Chunk",
    "DataParallel",
    "DecodePhase",
    "Event",
    "FrozenModel",
    "PrefillPhase",
    "Rank",
    "Scheduler",
    "Sequences",
    "Steps",
    "Team",
    "TrainingFramework",
    "TrainingPlan",
    "register",
]
