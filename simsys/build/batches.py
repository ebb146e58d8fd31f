"""The phases of a training run: consecutive iterations with one batch size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from simsys.config.training import TrainingConfig
from simsys.sums import ordered_sum


@dataclass(frozen=True, slots=True)
class BatchPhase:
    """Consecutive iterations with one batch size.

    Args:
        start: The first iteration, counted from 0.
        iterations: The number of iterations.
        batch_size_per_gpu: Samples of a micro-batch.
        micro_batches: Micro-batches of an iteration on a rank.
        entry: The entry of the batch schedule that it begins with; None for the plain settings.
    """

    start: int
    iterations: int
    batch_size_per_gpu: int
    micro_batches: int
    entry: int | None = None

    @property
    def samples(self) -> int:
        """Samples of an iteration on a rank."""
        return self.batch_size_per_gpu * self.micro_batches


def batch_phases(settings: TrainingConfig) -> list[BatchPhase]:
    """The phases of a run, in order; settings that an entry of the schedule leaves out keep their previous value."""
    count = settings.num_iterations
    phases = [BatchPhase(0, count, settings.batch_size_per_gpu, settings.gradient_accumulation_steps)]
    for index, entry in enumerate(settings.batch_schedule):
        before, start = phases[-1], min(entry.from_iteration, count)
        size = entry.batch_size_per_gpu or before.batch_size_per_gpu
        steps = entry.gradient_accumulation_steps or before.micro_batches
        phases[-1] = replace(before, iterations=start - before.start)
        phases.append(BatchPhase(start, count - start, size, steps, index))
    return [phase for phase in phases if phase.iterations]


def mean_over_iterations(phases: Sequence[BatchPhase], amounts: Iterable[float]) -> float:
    """The mean over all iterations of a value that is given for one iteration of each phase."""
    total = ordered_sum(phase.iterations * amount for phase, amount in zip(phases, amounts, strict=True))
    return total / sum(phase.iterations for phase in phases)


def iteration_assumptions(settings: TrainingConfig) -> Iterator[str]:
    """Assumptions about changing batches, checkpoints and data loading."""
    if settings.batch_schedule:
        yield f"the batch changes at iterations {', '.join(str(e.from_iteration) for e in settings.batch_schedule)}"
    if settings.checkpoint is not None:
        how = "written in the background" if settings.checkpoint.asynchronous else "written while training stops"
        yield f"checkpoints of weights and optimizer states, {how}, each byte once and without other traffic"
    if settings.data_loading is not None:
        ahead = "one iteration ahead" if settings.data_loading.prefetch else "when they are needed"
        yield f"batches are loaded {ahead}, by CPUs that do nothing else"
