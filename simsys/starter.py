"""What framework modules need of an executor, without knowing which one it is."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from simsys.model.batch import Batch
from simsys.ops import Collective, HostWork, Operation, Pass
from simsys.parallel.layout import Group
from simsys.parallel.passes import ForwardPass

if TYPE_CHECKING:
    from simpy.events import Event

    from simsys.serving.replica import Replica
    from simsys.serving.source import Source


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
        """Let a collective that a rank has started take its share of the GPU from the rank's next computation."""

    def mark(self, rank: int, name: str) -> None:
        """Tell the probes the name of a phase."""

    def stepper(self, team: Group, plan: ForwardPass, done: Callable[[int], None]) -> Stepper:
        """What carries out consecutive steps of a serving team; `done` hears how many, each time some have ended."""

    def passes(self, rank: int, forward: Callable[[Batch, float], Event], done: Callable[[int], None]) -> Stepper:
        """What carries out steps that are more than one pass, by calling `forward` with a batch and host seconds."""

    def pipeline(
        self,
        stages: Sequence[tuple[Group, ForwardPass]],
        parts: int,
        rank: int,
        forward: Callable[[Batch, float], Event],
        done: Callable[[int], None],
    ) -> Stepper:
        """What carries out steps of one of the engines that share a pipeline: the one with this first rank."""


class Stepper(Protocol):
    """Carries out consecutive steps of a team: in as many events as the level of detail wants."""

    def hasten(self, replica: Replica, source: Source) -> None:
        """All is there that takes part: whose steps they are, and where requests come from."""

    def run(self, batch: Batch, steps: int, host_s: float, more_pairs: float = 0.0) -> None:
        """Start a run of steps, of which each finds the context that those before have added.

        Args:
            batch: What the first step processes. The context of decoding sequences grows by one token each in every
                step, that of prompts by the other tokens of the batch.
            steps: How many follow if nothing happens; the run may end after fewer.
            host_s: Host time before each step.
            more_pairs: By how much the attention pairs of prompts grow from step to step.
        """

    def decode(self, sequences: int, context_tokens: int, steps: int, host_s: float) -> None:
        """The same for a batch without prompts.

        Args:
            sequences: How many decode.
            context_tokens: Tokens that they attend to in the first step, their new ones included.
            steps: As in `run`.
            host_s: As in `run`.
        """

    def cut(self) -> None:
        """End the run at the first end of a step that is not before now."""

    def passed(self) -> int:
        """How many steps of the run have ended before now; their end has not been told yet."""

    def stop(self) -> int:
        """End the run now for good, with the steps that have ended, and return how many; `done` is not called."""
