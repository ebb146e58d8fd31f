"""What levers of training save and what they cost in time, found out by simulating the job with each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from simsys.build.training import TrainingJob
from simsys.check.levers import Lever, lever_text, memory_problem, pulled
from simsys.check.training_levers import lever_pairs, single_levers
from simsys.errors import SimsysError
from simsys.simulation import simulate_job
from simsys.units import Dimension, pretty

MAX_SIMULATIONS = 12
"""Of one job; levers that come later have no time."""
MAX_PAIRS = 6
ITERATIONS = 10
"""At most; after two equal ones the rest are not simulated."""
STEADY = 4
"""Micro-batches, for each pipeline stage, after which a further one takes as long as the last."""
SAME_TIME = 5e-4
"""Times that differ by less, relatively, are called the same."""


@dataclass(frozen=True)
class LeverEffect:
    """What a lever does.

    Args:
        lever: The settings.
        saved_bytes: By how much less the fullest GPU holds.
        fits: Whether the job fits then.
        time_cost: Time per sample relative to that without the lever, less 1; None if it was not measured.
    """

    lever: Lever
    saved_bytes: float
    fits: bool
    time_cost: float | None = None

    @property
    def changes_training(self) -> bool:
        """Whether the model is trained differently, and not just otherwise computed."""
        return "training.optimizer" in self.lever

    def figures(self) -> str:
        """What it saves and costs.

        Example:
            >>> LeverEffect({"training.optimizer": "sgd"}, 18.2e9, True, -0.012).figures()
            'saves 18.2 GB, gains 1.2 % time, changes the training'
        """
        parts = [f"saves {pretty(self.saved_bytes, Dimension.BYTES)}"]
        if self.time_cost is not None:
            verb = "costs" if self.time_cost > 0 else "gains"
            same = abs(self.time_cost) < SAME_TIME
            parts.append("costs no time" if same else f"{verb} {percent(abs(self.time_cost))} time")
        if self.changes_training:
            parts.append("changes the training")
        return ", ".join(parts)

    def text(self) -> str:
        """The settings, what they save and cost."""
        return f"{lever_text(self.lever)} {self.figures()}"

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "settings": dict(self.lever),
            "saved_bytes": self.saved_bytes,
            "fits": self.fits,
            "time_cost": self.time_cost,
            "changes_training": self.changes_training,
        }


class Stopwatch:
    """Simulates a job with levers, each once, at medium detail and without a limit of memory.

    Args:
        job: The job without a lever; it need not fit.
        limit: Most simulations.
    """

    def __init__(self, job: TrainingJob, limit: int = MAX_SIMULATIONS) -> None:
        self._job = job
        self._left = limit
        self._found: dict[str, float | None] = {}

    def iteration_s(self, lever: Lever) -> float | None:
        """Seconds per iteration; None if it cannot be simulated or there have been too many simulations."""
        key = lever_text(lever)
        if key not in self._found:
            if not self._left:
                return None
            self._left -= 1
            try:
                self._found[key] = iteration_seconds(pulled(self._job, lever))
            except SimsysError:
                self._found[key] = None
        return self._found[key]

    def time_cost(self, lever: Lever) -> float | None:
        """Time per sample relative to that without the lever, less 1."""
        before_s, after_s = self.iteration_s({}), self.iteration_s(lever)
        if before_s is None or after_s is None:
            return None
        samples = pulled(self._job, lever).global_batch_size / self._job.global_batch_size
        return after_s / before_s / samples - 1


def iteration_seconds(job: TrainingJob) -> float:
    """Mean seconds per iteration at medium detail, whether the job fits into memory or not.

    Of many micro-batches only some are simulated, twice: what one more of them takes in the steady state does not
    depend on how many have been.

    Raises:
        SimsysError: If it cannot be carried out.
    """
    few = STEADY * job.layout.pipeline
    micro_batches = job.settings.gradient_accumulation_steps
    if micro_batches <= 2 * few:
        return _simulated_seconds(job, micro_batches)
    some_s, more_s = _simulated_seconds(job, few), _simulated_seconds(job, 2 * few)
    return more_s + (micro_batches - 2 * few) * (more_s - some_s) / few


def _simulated_seconds(job: TrainingJob, micro_batches: int) -> float:
    settings = {
        "simulation.lod": "medium",
        "training.num_iterations": min(job.settings.num_iterations, ITERATIONS),
        "training.gradient_accumulation_steps": micro_batches,
    }
    unlimited = replace(job, cluster=job.cluster.without_memory_limit())
    return float(simulate_job(pulled(unlimited, settings)).metrics["mean_iteration_s"])


def lever_effect(job: TrainingJob, lever: Lever, watch: Stopwatch | None = None) -> LeverEffect:
    """What one lever saves and, with a stopwatch, costs."""
    changed = pulled(job, lever)
    saved_bytes = sum(job.memory_bytes.values()) - sum(changed.memory_bytes.values())
    cost = watch.time_cost(lever) if watch is not None else None
    return LeverEffect(lever, saved_bytes, not memory_problem(changed), cost)


def lever_effects(job: TrainingJob, watch: Stopwatch, *, every: bool = False) -> Sequence[LeverEffect]:
    """What the levers of a job do, the best first.

    That is: those with which it fits, by the time they cost, what changes the training last; then those that do not
    suffice, by what they save. Pairs come in where no lever suffices alone.

    Args:
        job: What needs memory.
        watch: Measures the time.
        every: Whether to measure those that do not suffice too.
    """
    levers = [lever for lever, _ in single_levers(job)]
    effects = [effect for lever in levers if (effect := lever_effect(job, lever)).saved_bytes > 0]
    if not any(effect.fits for effect in effects):
        effects += [lever_effect(job, lever) for lever, _ in islice(lever_pairs(job), MAX_PAIRS)]
    measured = sorted(effects, key=lambda effect: not effect.fits)  # as long as simulations last, these first
    return sorted(
        (replace(each, time_cost=watch.time_cost(each.lever)) if every or each.fits else each for each in measured),
        key=_rank,
    )


def _rank(effect: LeverEffect) -> tuple[bool, bool, float, float]:
    cost = math.inf if effect.time_cost is None else effect.time_cost
    if effect.fits:
        return False, effect.changes_training, cost, -effect.saved_bytes
    return True, False, -effect.saved_bytes, cost


def percent(share: float) -> str:
    """A share for people.

    Example:
        >>> percent(0.0412)
        '4.1 %'
    """
    return f"{share * 100:.1f} %"
