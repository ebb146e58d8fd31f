"""The analysis of a scenario or of results: losses by resource with their place, and simulated remedies."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from simsys.analysis.findings import Finding, findings, of_jobs
from simsys.analysis.gains import SIMULATIONS, Gains, RemedyGain
from simsys.analysis.losses import Loss, largest_losses
from simsys.build.job import Built
from simsys.check import sound
from simsys.comparisons.side import Side
from simsys.comparisons.sources import Source, sides_of
from simsys.config.experiment import SimulationConfig
from simsys.errors import UsageError
from simsys.metrics.result import RunResult
from simsys.simulation import simulate

NO_JOBS = "remedies are simulated for one job, not for jobs that share a cluster"
EXACT = 1e-9
"""Relative difference above which a figure has changed since it was written."""


@dataclass(frozen=True)
class Analysis:
    """What limits a run, and what helps.

    Args:
        result: The result of the run.
        findings: What it loses to each resource, the most severe first.
        losses: The three largest losses.
        remedies: Settings that help, the best first.
        simulated: Number of simulated candidates.
        notes: Doubts, and what was left out.
    """

    result: RunResult
    findings: Sequence[Finding]
    losses: Sequence[Loss]
    remedies: Sequence[RemedyGain] = ()
    simulated: int = 0
    notes: Sequence[str] = ()

    @property
    def name(self) -> str:
        """The scenario."""
        return self.result.name

    def as_dict(self) -> dict[str, Any]:
        """The analysis as data for JSON."""
        return {
            "name": self.name,
            "kind": self.result.kind,
            "losses": [loss.as_dict() for loss in self.losses],
            "findings": [each.as_dict() for each in self.findings],
            "remedies": [each.as_dict() for each in self.remedies],
            "observations": [
                {"analysis": name, **asdict(each)} for name, seen in self.result.observations.items() for each in seen
            ],
            "simulated": self.simulated,
            "notes": list(self.notes),
        }


def analyze(
    source: Source,
    *,
    simulations: int = SIMULATIONS,
    limit_s: float = math.inf,
    say: Callable[[str], None] = lambda _: None,
) -> list[Analysis]:
    """Analyze scenarios.

    The scenario of results is simulated again, which gives the same figures.

    Args:
        source: A scenario, its file (``FILE`` or ``FILE:SCENARIO``), or a folder that `simsys run` has written.
        simulations: Most simulations of remedies of a scenario.
        limit_s: Limit of the estimated processor time of a scenario, and of all simulations of its remedies.
        say: Called with a line about the progress.

    Raises:
        UsageError: If the source cannot be read, or is a measurement.
        ConfigError: With every problem of a scenario.
        InfeasibleError: A scenario does not fit its hardware.

    Example:
        >>> from simsys.config.presets import create_small_scale_config
        >>> analyze(create_small_scale_config(), simulations=0)[0].findings[0].kind
        'compute'
    """
    return [_analyzed(side, simulations, limit_s, say) for side in sides_of(source, limit_s)]


def _analyzed(side: Side, simulations: int, limit_s: float, say: Callable[[str], None]) -> Analysis:
    if side.config is None or side.given == "measurement":
        raise UsageError(f"{side.source}: a measurement has no scenario whose remedies could be simulated")
    config = side.config
    built = side.plan.built if side.plan is not None and side.plan.built is not None else sound(config)
    result = simulate(config, built=built)
    notes = [*side.warnings, *(_changes(side.metrics, result.metrics, side.source) if side.given == "results" else [])]
    return analysis_of(config, built, result, simulations=simulations, limit_s=limit_s, say=say, notes=notes)


def analysis_of(
    config: SimulationConfig,
    built: Built,
    result: RunResult,
    *,
    simulations: int = SIMULATIONS,
    limit_s: float = math.inf,
    say: Callable[[str], None] = lambda _: None,
    notes: Sequence[str] = (),
) -> Analysis:
    """Analyze a result.

    Args:
        config: The scenario.
        built: The scenario as it was simulated.
        result: Its result.
        simulations: Most simulations of remedies.
        limit_s: Limit of the estimated processor time of these simulations together.
        say: Called with a line about the progress.
        notes: Doubts that are known already.
    """
    lost = largest_losses(result)
    if result.kind == "jobs":
        return Analysis(result, of_jobs(result, built.jobs), lost, notes=[*notes, NO_JOBS])
    found = findings(result, built.jobs[0])
    gains = Gains(
        built.jobs[0].config,
        built.jobs[0],
        simulations,
        limit_s,
        lambda number: say(f"{config.name}: remedy {number}"),
    )
    remedies = gains.remedies(found) if simulations else []
    return Analysis(result, found, lost, remedies, gains.tried, [*notes, *_left_out(gains, simulations)])


def _left_out(gains: Gains, simulations: int) -> list[str]:
    if not simulations:
        return ["no remedies were simulated (--simulations 0)"]
    if not gains.left_out:
        return []
    return [f"{gains.left_out} settings that may help were not simulated; --simulations and --limit set the limits"]


def _changes(before: Mapping[str, Any], now: Mapping[str, Any], source: str) -> list[str]:
    """A note if a run has other figures now than in its files."""
    for name, value in before.items():
        other = now.get(name)
        if not isinstance(value, int | float) or not isinstance(other, int | float):
            continue
        if not math.isclose(value, other, rel_tol=EXACT, abs_tol=EXACT):
            return [f"{source}: {name} was {value:.6g} and is {other:.6g} now; run the scenario again"]
    return []
