"""A scenario at both levels of detail, with the same workload and seed: one row of the comparison."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from simsys.config.experiment import SimulationConfig
from simsys.errors import UsageError
from simsys.level_study.amounts import amount, drawn, unit, with_amount
from simsys.level_study.estimate import Estimate, estimate
from simsys.level_study.folding import check_folding
from simsys.level_study.isolated import TooSlowError, isolated
from simsys.level_study.measurement import Measurement, differences, measure
from simsys.level_study.reasons import reasons
from simsys.level_study.variants import HIGH, MEDIUM
from simsys.report.text import number, time

Caller = Callable[..., Any]
"""Calls a function with a limit of wall time and its arguments; see `isolated`."""

MINUTE_S = 60.0
PATIENCE = 10.0
"""How many times longer than estimated and than the limit a run may take before it is given up: machines are busy."""
TRIAL_LIMIT_S = 30.0
SAMPLE, SURELY = 2000, 2.0
"""Multiple of the limit, estimated from the first requests, from which high is refused without further measurement."""
REPEATS = {HIGH: 3, MEDIUM: 5}


@dataclass(frozen=True)
class Settings:
    """How a comparison is made.

    Args:
        limit_s: How long high may take, as estimated.
        anyway: Whether it may take longer.
        part: Whether only so much is compared as high can do within the limit, if all of it would take longer.
        repeats: How often each level is measured, at most, medium before high and after it; None for some.
        call: How measured functions are called.
    """

    limit_s: float = MINUTE_S
    anyway: bool = False
    part: bool = False
    repeats: int | None = None
    call: Caller = isolated


@dataclass(frozen=True)
class Comparison:
    """A scenario at both levels.

    Args:
        config: The compared part of the scenario.
        high: The run at high.
        medium: The run at medium.
        least: Cost of the smallest run at medium.
        whole: All of the scenario at medium, if only a part was compared.
        whole_amount: Its number of iterations or requests.
    """

    config: SimulationConfig
    high: Measurement
    medium: Measurement
    least: Measurement
    whole: Measurement | None = None
    whole_amount: int = 0

    @property
    def differences(self) -> dict[str, float]:
        """By what share of high's figures those of medium differ."""
        return differences(self.medium.figures, self.high.figures)

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON, with what follows from it."""
        high, medium = self.high, self.medium
        row: dict[str, Any] = {
            "name": self.config.name,
            "description": self.config.description,
            "kind": self.config.kind,
            "amount": amount(self.config),
            "unit": unit(self.config),
            "drawn": drawn(self.config),
            "speedup": high.median_wall_s / medium.median_wall_s,
            "cpu_speedup": high.median_cpu_s / max(medium.median_cpu_s, 1e-9),
            "event_reduction": high.events / medium.events,
            "differences": self.differences,
            "largest_difference": max(map(abs, self.differences.values()), default=0.0),
            "least_cpu_s": self.least.median_cpu_s,
            "levels": {HIGH: high.as_dict(), MEDIUM: medium.as_dict()},
        }
        if self.whole is not None:
            row["whole"] = {"amount": self.whole_amount, **self.whole.as_dict()}
        return {**row, "reasons": reasons(row)}


def compare(config: SimulationConfig, settings: Settings) -> Comparison:
    """Simulate a scenario at both levels.

    Args:
        config: The scenario; its own level of detail does not count.
        settings: How.

    Raises:
        UsageError: If it has nothing to do, or high would take too long.
        InfeasibleError: If medium cannot fold its ranks.
        SimsysError: If it cannot be carried out.
    """
    check_folding(config)
    count, call = amount(config), settings.call
    repeats = settings.repeats or REPEATS[MEDIUM]
    expected = _expected(config, count, settings)
    whole = None
    if expected.cpu_s > settings.limit_s and not settings.anyway:
        fits = int(count * settings.limit_s / expected.cpu_s)
        if not settings.part or not fits or config.jobs is not None:
            raise UsageError(_too_long(config, expected, fits))
        whole, share = call(measure, None, config, MEDIUM, repeats), fits / count
        config = with_amount(config, fits)
        expected = expected.times(share)
    medium: Measurement = call(measure, None, config, MEDIUM, repeats)
    limit_s = None if settings.anyway else PATIENCE * max(expected.cpu_s, settings.limit_s)
    try:
        high: Measurement = call(measure, limit_s, config, HIGH, settings.repeats or REPEATS[HIGH])
    except TooSlowError as error:
        raise UsageError(f"{config.name}: high took much longer than estimated and was {error}") from error
    medium = medium.again(call(measure, None, config, MEDIUM, repeats))  # a machine that others use is slow at times
    least: Measurement = call(measure, None, with_amount(config, 1), MEDIUM, repeats)
    return Comparison(config, high, medium, least, whole, count if whole else 0)


def _expected(config: SimulationConfig, count: int, settings: Settings) -> Estimate:
    """What high is going to cost, from the beginning of the scenario if that says enough: medium takes time too."""
    if config.kind == "serving" and count > 4 * SAMPLE:
        expected = _concluded(with_amount(config, SAMPLE), settings).times(count / SAMPLE)
        if expected.cpu_s > SURELY * settings.limit_s:
            return expected
    return _concluded(config, settings)


def _concluded(config: SimulationConfig, settings: Settings) -> Estimate:
    """What high is going to cost; nothing is known if it does not even begin in time."""
    once: Measurement = settings.call(measure, None, config, MEDIUM, 1)
    _check_answers(config, once)
    try:
        found: Estimate = settings.call(estimate, TRIAL_LIMIT_S, config, once.simulated_s)
    except TooSlowError:
        return Estimate(float("inf"), 0.0, float("inf"))
    return found


def _check_answers(config: SimulationConfig, medium: Measurement) -> None:
    if config.kind == "serving" and not medium.figures["completed"]:
        raise UsageError(f"{config.name}: no request is completed, so there are no latencies to compare")


def _too_long(config: SimulationConfig, expected: Estimate, fits: int) -> str:
    if expected.cpu_s == float("inf"):
        cost = f"does not even begin within {TRIAL_LIMIT_S:g} s"
    else:
        cost = f"would take about {number(expected.events)} events and {time(expected.cpu_s)}"
    part = f", or --part to compare the first {fits:,} {unit(config)}" if fits and config.jobs is None else ""
    return f"{config.name}: high {cost}; add --yes to run it nevertheless{part}"
