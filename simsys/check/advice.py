"""What would make a job fit, as fixes and as the end of a message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simsys.build.serving import ServingJob
from simsys.build.training import TrainingJob
from simsys.check.effects import LeverEffect, Stopwatch, lever_effects
from simsys.check.levers import lever_text
from simsys.check.serving_effects import MAX_SIMULATIONS, serving_effects
from simsys.check.trials import Trials
from simsys.errors import Fix

OTHERWISE = "no settings that were tried make it fit; a smaller model or a GPU with more memory is needed"


def memory_fixes(
    job: TrainingJob | ServingJob, trials: Trials, tokens: int = 1, *, measured: bool = True
) -> list[Fix]:
    """Settings with which a job fits and passes all other checks, the best first.

    Args:
        job: What does not fit.
        trials: Checks its scenario with other settings.
        tokens: In serving, the shortest request (prompt and output) that must fit into the KV cache alone.
        measured: Whether to find out by simulation which is best; else what usually costs least is.
    """
    if isinstance(job, TrainingJob):
        watch = Stopwatch(job) if measured else Stopwatch(job, limit=0)
        return trials.passing(training_fixes(lever_effects(job, watch)))
    return trials.passing(_serving_fixes(job, tokens, measured=measured))


def training_fixes(effects: Sequence[LeverEffect]) -> Iterator[Fix]:
    """The levers with which a job fits, in their order."""
    for effect in effects:
        if effect.fits:
            figures = {key: value for key, value in effect.as_dict().items() if key not in ("settings", "fits")}
            yield Fix(effect.lever, effect.figures(), figures)


def _serving_fixes(job: ServingJob, tokens: int, *, measured: bool) -> Iterator[Fix]:
    for effect in serving_effects(job, tokens, MAX_SIMULATIONS if measured else 0):
        yield Fix(effect.lever, effect.figures(), effect.as_dict())


def advice(fixes: Sequence[Fix]) -> str:
    """What would make a job fit: the best, with what it saves and costs."""
    if not fixes:
        return OTHERWISE
    best = fixes[0]
    return f"{lever_text(best.edits)} would fit" + (f" ({best.note})" if best.note else "")
