"""Savings of memory and costs in time of training remedies, measured by simulating the job with each."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from simsys.build.rules.findings import Remedy
from simsys.build.training import TrainingJob
from simsys.check.effort import block_events, cluster_s
from simsys.check.remedies import applied, memory_problem, remedy_text
from simsys.check.training_remedies import Variant, remedy_combinations, remedy_pairs, single_remedies
from simsys.errors import SimsysError
from simsys.simulation import simulate_job
from simsys.sums import ordered_sum
from simsys.units import pretty_memory

MAX_SIMULATIONS = 20
"""Most simulations for one job; further remedies have no measured time."""
MAX_WORK = 36_000
"""Approximate events of all simulations for one job, about a second of computation; further remedies have no measured
time."""
MAX_PAIRS = 6
ITERATIONS = 10
"""Most simulated iterations, for a data-parallel module with unequal iterations."""
SAME_TIME = 5e-4
"""Relative difference below which two times count as equal."""


@dataclass(frozen=True)
class RemedyEffect:
    """The effect of a remedy.

    Args:
        remedy: The settings.
        saved_bytes: Reduction of the memory of the fullest GPU.
        fits: Whether the job fits with the remedy.
        time_cost: Time per sample divided by the time without the remedy, minus 1; None if it was not measured.
    """

    remedy: Remedy
    saved_bytes: float
    fits: bool
    time_cost: float | None = None

    @property
    def changes_training(self) -> bool:
        """Whether the training itself changes, not only the way in which it is computed."""
        return "training.optimizer" in self.remedy

    def figures(self) -> str:
        """Its savings and costs as text.

        Example:
            >>> RemedyEffect({"training.optimizer": "sgd"}, 18.2e9, True, -0.012).figures()
            'saves 17.0 GiB, gains 1.2 % time, changes the training'
        """
        parts = [f"saves {pretty_memory(self.saved_bytes)}"]
        if self.time_cost is not None:
            verb = "costs" if self.time_cost > 0 else "gains"
            same = abs(self.time_cost) < SAME_TIME
            parts.append("costs no time" if same else f"{verb} {percent(abs(self.time_cost))} time")
        if self.changes_training:
            parts.append("changes the training")
        return ", ".join(parts)

    def text(self) -> str:
        """The settings with their savings and costs."""
        return f"{remedy_text(self.remedy)} {self.figures()}"

    def as_dict(self) -> dict[str, Any]:
        """The effect as values for JSON."""
        return {
            "settings": dict(self.remedy),
            "saved_bytes": self.saved_bytes,
            "fits": self.fits,
            "time_cost": self.time_cost,
            "changes_training": self.changes_training,
        }


class Stopwatch:
    """Simulates a job with remedies, each once, at medium detail and without a memory limit.

    Args:
        job: The job without a remedy; it need not fit.
        limit: Most simulations.
        work: Most events of all simulations together, as `simulation_work` estimates them.
    """

    def __init__(self, job: TrainingJob, limit: int = MAX_SIMULATIONS, work: float = MAX_WORK) -> None:
        self._job = job
        self._left, self._work_left = limit, work
        self._found: dict[str, float | None] = {}

    def iteration_s(self, remedy: Remedy) -> float | None:
        """Time of an iteration (s); None if the job cannot be simulated or the limits are reached."""
        key = remedy_text(remedy)
        if key not in self._found:
            try:
                job = applied(self._job, remedy)
                work = simulation_work(job)
                if not self._left or work > self._work_left:
                    return None
                self._left, self._work_left = self._left - 1, self._work_left - work
                self._found[key] = iteration_seconds(job)
            except SimsysError:
                self._found[key] = None
        return self._found[key]

    def time_cost(self, remedy: Remedy) -> float | None:
        """Time per sample divided by the time without the remedy, minus 1."""
        before_s, after_s = self.iteration_s({}), self.iteration_s(remedy)
        if before_s is None or after_s is None:
            return None
        samples = applied(self._job, remedy).global_batch_size / self._job.global_batch_size
        return after_s / before_s / samples - 1


def simulation_work(job: TrainingJob) -> float:
    """Approximate events that `iteration_seconds` simulates: passes through blocks, and buckets of gradients.

    The processor time of a large cluster is converted into events.
    """
    micro_batches = job.settings.gradient_accumulation_steps
    few = max(4, 2 * job.layout.pipeline)
    runs = [micro_batches] if micro_batches <= 2 * few else [few, 2 * few]
    clusters = len(runs) * cluster_s(job) * MAX_WORK
    return float(clusters + ordered_sum(block_events(job, count) for count in runs))


def iteration_seconds(job: TrainingJob) -> float:
    """Mean seconds per iteration at medium detail, whether the job fits into memory or not.

    Of many micro-batches, only two smaller numbers are simulated, and the time of each further one in the steady state
    is taken from their difference. This is inexact where links are nearly as busy as GPUs and slowly fall behind.

    Raises:
        SimsysError: If the job cannot be simulated.
    """
    few = max(4, 2 * job.layout.pipeline)
    micro_batches = job.settings.gradient_accumulation_steps
    if micro_batches <= 2 * few:
        return _simulated_seconds(job, micro_batches)
    some_s, more_s = _simulated_seconds(job, few), _simulated_seconds(job, 2 * few)
    return more_s + (micro_batches - 2 * few) * (more_s - some_s) / few


def _simulated_seconds(job: TrainingJob, micro_batches: int) -> float:
    same_every_step = job.data_parallel[0].same_every_step
    settings = {
        "simulation.lod": "medium",
        "training.num_iterations": 1 if same_every_step else min(job.settings.num_iterations, ITERATIONS),
        "training.gradient_accumulation_steps": micro_batches,
    }
    unlimited = replace(job, cluster=job.cluster.without_memory_limit())
    return float(simulate_job(applied(unlimited, settings)).metrics["mean_iteration_s"])


def remedy_effect(job: TrainingJob, remedy: Remedy, watch: Stopwatch) -> RemedyEffect:
    """The effect of one remedy."""
    return replace(_saving(job, (remedy, applied(job, remedy))), time_cost=watch.time_cost(remedy))


def remedy_effects(job: TrainingJob, watch: Stopwatch, *, every: bool = False) -> list[RemedyEffect]:
    """The effects of the remedies of a job, the best first.

    Remedies with which the job fits come first, ordered by their costs in time; changes of the training come last
    among them. Insufficient remedies follow, ordered by their savings. For a job that does not fit, there are also
    pairs of insufficient remedies, and if no pair suffices, larger combinations.

    Args:
        job: The job that needs memory.
        watch: Measures the time.
        every: Whether to measure insufficient remedies too.
    """
    effects = [_saving(job, variant) for variant in single_remedies(job)]
    if memory_problem(job):
        alone = [effect.remedy for effect in effects if effect.fits]
        pairs = [pair for pair in remedy_pairs(job) if not any(remedy.items() <= pair[0].items() for remedy in alone)]
        effects += [_saving(job, variant) for variant in pairs[:MAX_PAIRS]]
        if not any(effect.fits for effect in effects):
            effects += [_saving(job, variant) for variant in remedy_combinations(job)]
    helping = [effect for effect in effects if effect.saved_bytes > 0]
    helping.sort(key=lambda effect: not effect.fits)  # sufficient remedies are measured first
    measured = (
        replace(effect, time_cost=watch.time_cost(effect.remedy)) if every or effect.fits else effect
        for effect in helping
    )
    return sorted(measured, key=_rank)


def _saving(job: TrainingJob, variant: Variant) -> RemedyEffect:
    remedy, changed = variant
    saved_bytes = ordered_sum(job.memory_bytes.values()) - ordered_sum(changed.memory_bytes.values())
    return RemedyEffect(remedy, saved_bytes, not memory_problem(changed))


def _rank(effect: RemedyEffect) -> tuple[bool, bool, float, float]:
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
