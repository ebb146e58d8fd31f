"""DDP or FSDP: memory and iteration time with each strategy of data parallelism."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from simsys.build.training import TrainingJob
from simsys.check.effects import SAME_TIME, Stopwatch, percent
from simsys.check.remedies import applied, memory_problem
from simsys.check.training_remedies import current_strategy, strategy_remedy
from simsys.config.parallelism import DATA_STRATEGIES
from simsys.errors import SimsysError
from simsys.sums import ordered_sum
from simsys.units import pretty_memory


@dataclass(frozen=True)
class StrategyFigures:
    """A job with one strategy of data parallelism.

    Args:
        strategy: Its name.
        memory_bytes: Memory that the fullest GPU needs.
        fits: Whether the job fits.
        iteration_s: Time of an iteration; None if it was not measured.
    """

    strategy: str
    memory_bytes: float
    fits: bool
    iteration_s: float | None

    def as_dict(self) -> dict[str, Any]:
        """The strategy as values for JSON."""
        return asdict(self)


def compare_strategies(job: TrainingJob, watch: Stopwatch, *, every: bool = False) -> list[StrategyFigures]:
    """Return the job with each strategy, DDP first; empty unless the job uses a shipped data-parallel strategy.

    Args:
        job: The job, with one of the strategies.
        watch: Measures the time.
        every: Whether to also measure strategies that do not fit.
    """
    found = (_figures(job, data, watch, every=every) for data in DATA_STRATEGIES)
    return [figures for figures in found if figures is not None]


def strategy_advice(found: Sequence[StrategyFigures], capacity_bytes: float, others: str = "") -> str:
    """Advice on the strategy in one line: the fastest that fits, and of equally fast ones the one that shards least.

    FSDP is compared with DDP, and any other with FSDP, if they fit; else with the next best.

    Args:
        found: The strategies.
        capacity_bytes: Memory of a GPU.
        others: Settings with which the job fits, if any do.
    """
    timed = {each.strategy: each.iteration_s for each in found if each.fits and each.iteration_s is not None}
    if not timed:
        least = min(found, key=lambda figures: figures.memory_bytes)
        alone = f"no strategy fits alone, but {others} does" if others else "no strategy fits"
        known = "it fits" if least.fits else alone
        return f"advice: {least.strategy} needs least, {pretty_memory(least.memory_bytes)} per GPU; {known}"
    limit_s = min(timed.values()) * (1 + SAME_TIME)
    best, ddp = next(each for each in found if timed.get(each.strategy, math.inf) <= limit_s), found[0]
    text = f"advice: {best.strategy} fits ({pretty_memory(best.memory_bytes)} of {pretty_memory(capacity_bytes)})"
    best_s = timed.pop(best.strategy)
    if timed:
        usual = "DDP" if best.strategy == "FSDP" else "FSDP"
        other = usual if usual in timed else min(timed, key=lambda name: timed[name])
        text += f" and is {_compared(best_s, timed[other])} {other} (measured by simulation)"
    if not ddp.fits:
        text += f"; {ddp.strategy} would need {pretty_memory(ddp.memory_bytes)} per GPU"
    return text


def _compared(this_s: float, other_s: float) -> str:
    """Speed of one strategy relative to another, as text."""
    ratio = other_s / this_s
    if abs(ratio - 1) < SAME_TIME:
        return "as fast as"
    return f"{ratio:.1f} times as fast as" if ratio > 2 else f"{percent(ratio - 1)} faster than"


def _figures(job: TrainingJob, data: str, watch: Stopwatch, *, every: bool) -> StrategyFigures | None:
    """One strategy; None if there is no choice, or if it differs from another in name only."""
    current = data == current_strategy(job)
    remedy = strategy_remedy(job, data)
    if remedy is None or (data == "HSDP" and job.cluster.num_nodes == 1 and not current):
        return None
    remedy = {} if current else remedy
    changed = applied(job, remedy)
    try:
        fits = not memory_problem(changed)
    except SimsysError:  # options that do not fit this number of ranks
        return None
    memory_bytes = ordered_sum(changed.memory_bytes.values())
    return StrategyFigures(data, memory_bytes, fits, watch.iteration_s(remedy) if fits or every else None)
