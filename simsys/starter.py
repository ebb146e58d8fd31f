"""What framework modules need of an executor, without knowing which one it is."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from simsys.model.batch import NOTHING, Batch
from simsys.model.speculation import Speculation
from simsys.ops import Collective, HostWork, Operation, Pass
from simsys.parallel.layout import Group
from simsys.parallel.lockstep import LockStep
from simsys.parallel.passes import ForwardPass

if TYPE_CHECKING:
    from simpy.events import Event


class Starter(Protocol):
    """The part of an executor that verbs need."""

    def start(self, op: Operation) -> Event:
        """Start an operation; the event fires when it is done."""

    def start_after(self, op: Collective | HostWork, event: Event) -> Event:
        """Start a collective, or work of the host, that begins once `event` has fired."""

    def carry_out(self, each: Pass) -> Generator[Event, Any, None]:
        """Run the operations of a pass in turn."""

    def wait(self, rank: int, events: Iterable[Event]) -> Event:
        """An event that fires when all `events` have."""

    def now(self, rank: int) -> float:
        """The time at which `rank` would start its next operation if it did so now."""

    def synchronize(self, rank: int) -> None:
        """Let the host of `rank` launch what comes next from now on, not ahead of its GPU."""

    def share(self, op: Collective) -> None:
        """Slow a rank's next computation down by one of its collectives."""

    def mark(self, rank: int, name: str) -> None:
        """Report the name of a phase to the probes."""

    def steps_of(self, rank: int, steps: Sequence[tuple[Hashable, Hashable]]) -> Iterator[tuple[int, int]]:
        """The places of the steps of a rank that are simulated; see `Rank.steps_of`."""

    def stepper(self, team: Group, plan: ForwardPass, done: Callable[[int], None]) -> Stepper:
        """What carries out consecutive steps of a serving team; `done` hears how many, each time some have ended."""

    def pass_s(self, team: Group, plan: ForwardPass, batch: Batch) -> float:
        """Time of a pass on idle links, without host work, if it began now."""

    def passes(self, rank: int, forward: Callable[[Batch, float], Event], done: Callable[[int], None]) -> Stepper:
        """What carries out steps that are more than one pass, by calling `forward` with a batch and host seconds."""

    def drafting(
        self, team: Group, drafting: Drafting, forward: Callable[[Batch, float], Event], done: Callable[[int], None]
    ) -> Stepper:
        """What carries out steps of a team that drafts tokens and verifies them, each by calling `forward`."""

    def pipeline(
        self,
        stages: Sequence[tuple[Group, ForwardPass]],
        parts: int,
        rank: int,
        forward: Callable[[Batch, float], Event],
        done: Callable[[int], None],
    ) -> Stepper:
        """What carries out steps of one of the engines that share a pipeline: the one with this first rank."""

    def lockstep(
        self, lockstep: LockStep, drafting: Drafting | None, rank: int, done: Callable[[int], None]
    ) -> Stepper:
        """What carries out steps of one of the data-parallel ranks that share their experts."""


@dataclass(frozen=True, slots=True)
class Drafting:
    """How a team drafts tokens before it verifies them.

    Args:
        plan: One rank's share of the model that verifies.
        speculation: Settings of drafting.
        draft: One rank's share of the draft model, or None.
        draft_s: Without one, time per draft token.
    """

    plan: ForwardPass
    speculation: Speculation
    draft: ForwardPass | None = None
    draft_s: float = 0.0

    def host_s(self, batch: Batch) -> float:
        """Time before a pass in which tokens are drafted without a model."""
        drafts = self.draft is None and batch.decode_sequences
        return self.speculation.draft_tokens * self.draft_s if drafts else 0.0

    def drafts(self, batch: Batch) -> list[Batch]:
        """The passes of the model that drafts, before a step; none if none does."""
        return [] if self.draft is None else self.speculation.drafts(batch)

    @staticmethod
    def growth(more: Batch) -> Batch:
        """What each step adds to the next one's drafts, of what it adds to the pass that verifies them."""
        return more._replace(verified_pairs=0.0) if more.verified_pairs else more


class Stepper(Protocol):
    """Carries out consecutive steps of a team: in as many events as the level of detail wants."""

    def run(self, batch: Batch, steps: int, host_s: float, more: Batch = NOTHING) -> None:
        """Start a run of steps, of which each finds the context that those before have added.

        Args:
            batch: The batch of the first step.
            steps: Number of steps unless interrupted; the run may end earlier.
            host_s: Host time before each step.
            more: Context and pairs that each step adds to the next one's; of no interest for a single step.
        """

    def decode(self, sequences: int, context_tokens: float, steps: int, host_s: float, follows: bool) -> None:
        """Start a run of steps without prompts.

        Args:
            sequences: Number of decoding sequences.
            context_tokens: Tokens that they attend to in the first step,
                their new ones included.
            steps: As in `run`.
            host_s: As in `run`; the same whenever the number of sequences is.
            follows: Whether the run before ends now, and its sequences are these.
        """

    def cut(self, later: bool = False) -> int:
        """End the run at the first end of a step that is not before now.

        Args:
            later: End it one step later, if it lasts that long and its end can be foreseen.

        Returns:
            With `later`, the number of steps of the run until then; 0 if it does not end there.
        """

    def next_s(self) -> float | None:
        """When the step under way ends; None if that may change."""

    def passed(self) -> int:
        """Number of steps of the run that have ended before now and have not been reported yet."""

    def stop(self) -> int:
        """End the run now for good, with the steps that have ended, and return how many; `done` is not called."""
