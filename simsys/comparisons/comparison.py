"""Comparisons: ratios of metrics to the first side, their errors, and the time by cause."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from simsys.comparisons.causes import WHOLE, common_causes
from simsys.comparisons.expected import Expected, ExpectedErrors, other_settings
from simsys.comparisons.headline import HEADLINE, ordered_metrics
from simsys.comparisons.interval import interval
from simsys.comparisons.side import Side, simulated
from simsys.comparisons.sources import Source, read_sides
from simsys.errors import UsageError
from simsys.report.threshold import Threshold, check_thresholds
from simsys.shown import Shown

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Ratio:
    """The ratio of a metric.

    Args:
        metric: The metric.
        unit: Its unit.
        base: Its value on the first side; None if it has none.
        value: Its value on the other side.
        ratio: `value` over `base`, with several seeds the geometric mean of their ratios; None if it is undefined.
        low: Lower end of the 95 % confidence interval over seeds; None with one seed.
        high: Upper end.
        expected: The expected error of the ratio.
    """

    metric: str
    unit: str
    base: float | None
    value: float | None
    ratio: float | None
    low: float | None
    high: float | None
    expected: Expected

    @property
    def exceeds(self) -> bool | None:
        """Whether the difference exceeds 9 of 10 expected errors and the interval over seeds; None if not known."""
        if self.ratio is None or self.expected.nine_of_ten is None:
            return None
        by_chance = self.low is not None and self.high is not None and self.low <= 1.0 <= self.high
        return not by_chance and abs(math.log(self.ratio)) > math.log1p(self.expected.nine_of_ten)

    def as_dict(self) -> dict[str, Any]:
        """The ratio, ready for JSON."""
        return {**asdict(self), "exceeds_expected_error": self.exceeds}


@dataclass(frozen=True)
class Cause:
    """The time due to one cause.

    Args:
        name: The cause.
        base_s: Its time on the first side.
        value_s: Its time on the other side.
    """

    name: str
    base_s: float
    value_s: float

    @property
    def difference_s(self) -> float:
        """The time on the other side minus the time on the first one."""
        return self.value_s - self.base_s

    def as_dict(self) -> dict[str, Any]:
        """The cause, ready for JSON."""
        return {"cause": self.name, "base_s": self.base_s, "value_s": self.value_s, "difference_s": self.difference_s}


@dataclass(frozen=True)
class Pair:
    """Two sides of a comparison.

    Args:
        base: The first side, which the other one is divided by.
        other: The other side.
    """

    base: Side
    other: Side

    @cached_property
    def errors(self) -> ExpectedErrors:
        """The expected errors of the ratios."""
        return ExpectedErrors(self.base, self.other)

    @cached_property
    def ratios(self) -> list[Ratio]:
        """The ratios of all metrics that a side has, headline metrics first."""
        return list(self._ratios())

    @cached_property
    def headline(self) -> list[Ratio]:
        """The ratios of the headline metrics that both sides have."""
        named = HEADLINE[self.base.kind]
        return [each for each in self.ratios if each.metric in named and None not in (each.base, each.value)]

    @property
    def leading(self) -> Ratio | None:
        """The first headline metric whose error is known, else the first one; None if none is in common."""
        known = [each for each in self.headline if each.exceeds is not None]
        return next(iter([*known, *self.headline]), None)

    @cached_property
    def causes(self) -> list[Cause]:
        """The time by cause on both sides, the largest difference first; empty if it is not known."""
        here, there = common_causes(self.base.kind, self.base.metrics, self.other.metrics)
        names = [name for name in dict.fromkeys([*here, *there]) if here.get(name) or there.get(name)]
        found = [Cause(name, here.get(name, 0.0), there.get(name, 0.0)) for name in names]
        return sorted(found, key=lambda each: -abs(each.difference_s))

    def ratio(self, metric: str) -> Ratio | None:
        """The ratio of one metric; None if neither side has it."""
        return next((each for each in self.ratios if each.metric == metric), None)

    def as_dict(self) -> dict[str, Any]:
        """The pair, ready for JSON."""
        return {
            "base": self.base.label,
            "other": self.other.label,
            "differs_in": self.errors.aspects,
            "settings": {name: list(values) for name, values in other_settings(self.base, self.other).items()},
            "ratios": [each.as_dict() for each in self.ratios],
            "whole": WHOLE.get(self.base.kind),
            "causes": [each.as_dict() for each in self.causes],
        }

    def _ratios(self) -> Iterator[Ratio]:
        here, there = self.base.metrics, self.other.metrics
        for metric in ordered_metrics(self.base.kind):
            name = metric.name
            base, value = (_number(metrics.get(name, metric.absent)) for metrics in (here, there))
            if base is None and value is None:
                continue
            ratio, low, high = self._over_seeds(name, metric.absent) or (_divided(base, value), None, None)
            yield Ratio(name, metric.unit, base, value, ratio, low, high, self.errors.of(name))

    def _over_seeds(self, name: str, absent: float | None) -> tuple[float, float, float] | None:
        """The mean and interval over runs with equal seeds; None if there is one run, or a ratio is undefined."""
        if len(self.base.runs) != len(self.other.runs):
            return None
        runs = zip(self.base.runs, self.other.runs, strict=True)
        found = [_divided(*(_number(run.get(name, absent)) for run in pair)) for pair in runs]
        ratios = [ratio for ratio in found if ratio is not None and ratio > 0.0]
        return interval(ratios) if len(ratios) == len(found) else None


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """The result of a comparison.

    Args:
        sides: The sides; ratios are to the first one.
        warnings: What makes the comparison doubtful.
    """

    sides: Sequence[Side]
    warnings: Sequence[str] = ()

    @cached_property
    def pairs(self) -> list[Pair]:
        """The first side with each other one."""
        return [Pair(self.sides[0], other) for other in self.sides[1:]]

    def table(self) -> pandas.DataFrame:
        """One row for each metric of each pair: values, ratio, interval, and expected error."""
        import pandas

        return pandas.DataFrame([self._row(pair, each) for pair in self.pairs for each in pair.ratios])

    def causes(self) -> pandas.DataFrame:
        """One row for each cause of each pair: seconds on both sides and the difference."""
        import pandas

        rows = [{"other": pair.other.label, **each.as_dict()} for pair in self.pairs for each in pair.causes]
        return pandas.DataFrame(rows)

    def failures(self, thresholds: Sequence[Threshold]) -> list[str]:
        """One sentence for each condition on a ratio that a pair meets; a ratio without a value counts as one."""
        found = []
        for pair in self.pairs:
            for each in thresholds:
                known = pair.ratio(each.metric)
                ratio = None if known is None else known.ratio
                what = f"{pair.other.label} / {pair.base.label}: the ratio of {each.metric}"
                if ratio is None:
                    found.append(f"{what} has no value")
                elif each.holds(ratio):
                    found.append(f"{what} is {ratio:.6g}, {each.comparison} {each.limit:g}")
        return found

    def as_dict(self) -> Mapping[str, Any]:
        """The comparison, ready for JSON."""
        return {
            "sides": [side.as_dict() for side in self.sides],
            "warnings": list(self.warnings),
            "pairs": [pair.as_dict() for pair in self.pairs],
        }

    def __repr__(self) -> str:
        """In one line: a headline metric of each pair."""
        found = "".join(
            f", {pair.other.label!r} {each.metric} x{each.ratio:.4g}"
            for pair in self.pairs
            if (each := pair.leading) is not None and each.ratio is not None
        )
        return f"<Comparison with {self.sides[0].label!r}{found}>"

    @staticmethod
    def _row(pair: Pair, each: Ratio) -> dict[str, Any]:
        return {
            "metric": each.metric,
            "unit": each.unit,
            "base": pair.base.label,
            "other": pair.other.label,
            "base_value": each.base,
            "value": each.value,
            "ratio": each.ratio,
            "low": each.low,
            "high": each.high,
            "expected_median": each.expected.median,
            "expected_p90": each.expected.nine_of_ten,
            "exceeds": each.exceeds,
        }


def compare(
    *sources: Source, seeds: int = 1, limit_s: float = math.inf, thresholds: Sequence[Threshold] = ()
) -> Comparison:
    """Compare scenarios, results of runs, and measurements with the first of them.

    Args:
        sources: Scenario files (``FILE`` or ``FILE:SCENARIO``), scenarios, folders that `simsys run` has written, and
            results of ``vllm bench serve``.
        seeds: Runs of each scenario. Run number n of all scenarios has the same seed, so that random numbers are
            common; the first is the seed of the first scenario.
        limit_s: Limit of the estimated processor time of a scenario.
        thresholds: Conditions on ratios, checked before anything is simulated; see `Comparison.failures`.

    Raises:
        UsageError: What is given cannot be compared, or a condition has an unknown metric.
        ConfigError: With every problem of a scenario.
        InfeasibleError: A scenario does not fit its hardware.
    """
    sides = read_sides(sources, limit_s)
    check_thresholds(thresholds, [sides[0].kind])
    first = next((side.seed for side in sides if side.plan is not None), None)
    if seeds > 1 and any(side.plan is None for side in sides):
        fixed = ", ".join(side.label for side in sides if side.plan is None)
        raise UsageError(f"several seeds need scenarios, but {fixed} is no scenario: it has one run")
    warnings = _warnings(sides, seeds)
    return Comparison([simulated(side, seeds, first or 0) for side in sides], warnings)


def _warnings(sides: Sequence[Side], seeds: int) -> list[str]:
    """What makes the comparison doubtful."""
    own = {side.label: side.seed for side in sides if side.seed is not None}
    if len(set(own.values())) > 1:
        listed = ", ".join(f"{label} {seed}" for label, seed in own.items())
        if seeds > 1:
            return [f"the seeds of the scenarios differ ({listed}), but all runs have those of the first one"]
        return [f"the seeds differ ({listed}), so a part of the difference is chance"]
    return []


def _divided(base: float | None, value: float | None) -> float | None:
    return value / base if base and value is not None else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
