"""What would make a job fit, as the end of a message."""

from __future__ import annotations

from itertools import chain

from simsys.build.serving import ServingJob
from simsys.build.training import TrainingJob
from simsys.check.effects import LeverEffect, Stopwatch, lever_effect
from simsys.check.levers import Lever, lever_text, memory_problem, pulled
from simsys.check.serving_levers import serving_levers
from simsys.check.training_levers import lever_pairs, single_levers
from simsys.errors import UsageError


def cheapest_lever(job: TrainingJob | ServingJob, tokens: int = 1) -> Lever | None:
    """The first setting, in the order of what levers usually cost, with which the job fits; None if none helps.

    Args:
        job: What does not fit.
        tokens: In serving, the shortest request (prompt and output) that must fit into the KV cache alone.
    """
    if isinstance(job, TrainingJob):
        variants = chain(single_levers(job), lever_pairs(job))
        return next((lever for lever, changed in variants if not memory_problem(changed)), None)
    return next((lever for lever in serving_levers(job) if _fits(job, lever, tokens)), None)


def _fits(job: ServingJob, lever: Lever, tokens: int) -> bool:
    """Whether a serving job with a lever can be built, with as many replicas as it asks for, and fits."""
    try:
        return not memory_problem(pulled(job, lever), tokens)
    except UsageError:
        return False


def advice(job: TrainingJob | ServingJob, lever: Lever | None) -> str:
    """What would make the job fit; in training, with what that saves and costs."""
    if isinstance(job, TrainingJob):
        return effect_advice(None if lever is None else lever_effect(job, lever, Stopwatch(job)))
    if lever is not None:
        return f"{lever_text(lever)} would fit"
    return f"no single setting makes it fit; {_OTHERWISE}"


def effect_advice(effect: LeverEffect | None) -> str:
    """The same of a lever whose effect is known; None if there is none."""
    if effect is not None:
        return f"{lever_text(effect.lever)} would fit ({effect.figures()})"
    return f"no single setting makes it fit, nor do two; {_OTHERWISE}"


_OTHERWISE = "a smaller model or a GPU with more memory is needed"
