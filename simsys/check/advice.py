"""Remedies for a job that does not fit into memory, as fixes and as the end of a message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simsys.build.serving import ServingJob
from simsys.build.training import TrainingJob
from simsys.check.effects import RemedyEffect, Stopwatch, remedy_effects
from simsys.check.remedies import remedy_text
from simsys.check.serving_effects import MAX_SIMULATIONS, serving_effects
from simsys.check.trials import Trials
from simsys.errors import Fix

OTHERWISE = "no settings that were tried make it fit; a smaller model or a GPU with more memory is needed"


def memory_fixes(
    job: TrainingJob | ServingJob, trials: Trials, tokens: int = 1, *, measured: bool = True
) -> list[Fix]:
    """Return settings with which a job fits and passes all other checks, the best first.

    Args:
        job: The job that does not fit.
        trials: Checks its scenario with other settings.
        tokens: In serving, the shortest request (prompt and output) that must fit into the KV cache alone.
        measured: Whether to compare the settings by simulation; otherwise the usual order of costs decides.
    """
    if isinstance(job, TrainingJob):
        watch = Stopwatch(job) if measured else Stopwatch(job, limit=0)
        return trials.passing(training_fixes(remedy_effects(job, watch)))
    return trials.passing(_serving_fixes(job, tokens, measured=measured))


def training_fixes(effects: Sequence[RemedyEffect]) -> Iterator[Fix]:
    """Remedies with which a job fits, the best first."""
    for effect in effects:
        if effect.fits:
            figures = {key: value for key, value in effect.as_dict().items() if key not in ("settings", "fits")}
            yield Fix(effect.remedy, effect.figures(), figures)


def _serving_fixes(job: ServingJob, tokens: int, *, measured: bool) -> Iterator[Fix]:
    for effect in serving_effects(job, tokens, MAX_SIMULATIONS if measured else 0):
        yield Fix(effect.remedy, effect.figures(), effect.as_dict())


def advice(fixes: Sequence[Fix]) -> str:
    """The best remedy for a job that does not fit, with its savings and costs, as the end of a message."""
    if not fixes:
        return OTHERWISE
    best = fixes[0]
    return f"{remedy_text(best.edits)} would fit" + (f" ({best.note})" if best.note else "")
