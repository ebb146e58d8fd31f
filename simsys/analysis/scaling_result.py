"""Results of a scaling study: efficiency, its breakdown, the serial fraction, and the best sizes."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from simsys.analysis.scaling_fits import LAWS, Fit, Law, fit
from simsys.shown import Shown

if TYPE_CHECKING:
    import pandas

Mode = Literal["weak", "strong"]
ACCEPTABLE_EFFICIENCY = 0.7
"""Efficiency below which scaling counts as broken down; the first design document's threshold."""
LAW: Mapping[Mode, Law] = {"strong": "Amdahl", "weak": "Gustafson"}
FIGURES = ("usd_per_million_tokens", "energy_per_token_j", "time_to_train_s", "usd_to_train", "energy_to_train_j")
"""Metrics of a run that a point keeps, if the run has them."""
EQUAL = 0.01
"""Relative difference below which two sizes count as equally fast or cheap; the smaller one is then the best."""


@dataclass(frozen=True)
class ScalingPoint:
    """One size of the cluster.

    Args:
        nodes: Nodes.
        gpus: GPUs.
        batch_size_per_gpu: Samples per GPU and micro-batch; 0 if the global batch cannot be divided.
        iteration_s: Mean time of an iteration; None if the point cannot be simulated.
        samples_per_s: Throughput of all GPUs together.
        problem: The reason why the point cannot be simulated.
        figures: Cost and energy by name, as in the metrics of a run.
    """

    nodes: int
    gpus: int
    batch_size_per_gpu: int
    iteration_s: float | None = None
    samples_per_s: float | None = None
    problem: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class ScalingResult(Shown):
    """The results of a scaling study.

    Speed-ups and efficiencies are relative to the smallest point that could be simulated, the base.

    Args:
        name: The scenario.
        mode: ``weak``: the batch per GPU is fixed; ``strong``: the global batch is.
        points: One per number of nodes, ascending.
    """

    name: str
    mode: Mode
    points: Sequence[ScalingPoint]

    def __repr__(self) -> str:
        """In one line: the sizes and the efficiency of the largest."""
        sizes = ", ".join(str(point.nodes) for point in self.points)
        last = next(point for point in reversed(self.points) if not point.problem)
        return (
            f"<ScalingResult {self.name!r} {self.mode}, nodes {sizes}: "
            f"efficiency {self.efficiency(last):.3g} on {last.nodes}>"
        )

    @cached_property
    def base(self) -> ScalingPoint:
        """The smallest point that could be simulated."""
        return next(point for point in self.points if not point.problem)

    def efficiency(self, point: ScalingPoint) -> float | None:
        """T(1) / (N T(N)) for strong and T(1) / T(N) for weak scaling: throughput per GPU over the base's."""
        if point.samples_per_s is None or self.base.samples_per_s is None:
            return None
        return (point.samples_per_s / point.gpus) / (self.base.samples_per_s / self.base.gpus)

    @property
    def rows(self) -> dict[str, list[Any]]:
        """One column per name, one row per point; empty where it could not be simulated."""
        return {
            "nodes": [point.nodes for point in self.points],
            "gpus": [point.gpus for point in self.points],
            "batch_size_per_gpu": [point.batch_size_per_gpu for point in self.points],
            "iteration_s": [point.iteration_s for point in self.points],
            "samples_per_s": [point.samples_per_s for point in self.points],
            **{name: [point.figures.get(name) for point in self.points] for name in self.figures},
            "efficiency": [self.efficiency(point) for point in self.points],
            "problem": [point.problem for point in self.points],
        }

    @property
    def figures(self) -> list[str]:
        """Names of the figures of cost and energy that points have."""
        return [name for name in FIGURES if any(name in point.figures for point in self.points)]

    def table(self) -> pandas.DataFrame:
        """The rows as a pandas table."""
        import pandas

        return pandas.DataFrame(self.rows)

    @property
    def breakdown_nodes(self) -> int | None:
        """The smallest number of nodes with an efficiency below 0.7; None if there is none."""
        for point in self.points:
            efficiency = self.efficiency(point)
            if efficiency is not None and efficiency < ACCEPTABLE_EFFICIENCY:
                return point.nodes
        return None

    @cached_property
    def fits(self) -> dict[Law, Fit]:
        """Both laws, fitted to the speed-ups in samples per second over the base; empty with fewer than two points."""
        points = [point for point in self.points if point.samples_per_s]
        ideal = [point.gpus / self.base.gpus for point in points]
        speedups = [size * (self.efficiency(point) or 0.0) for size, point in zip(ideal, points, strict=True)]
        found = {law: fit(law, ideal, speedups) for law in LAWS}
        return {law: each for law, each in found.items() if each is not None}

    @property
    def fit(self) -> Fit | None:
        """The law of the mode: Amdahl's for strong, Gustafson's for weak scaling; None with fewer than two points."""
        return self.fits.get(LAW[self.mode])

    @property
    def serial_fraction(self) -> float | None:
        """The serial fraction of the base's time by the law of the mode; None with fewer than two points."""
        return None if self.fit is None else self.fit.fraction

    @property
    def speedup_limit(self) -> float | None:
        """Amdahl's limit 1/f of the speed-up over the base; None for weak scaling, which has none, or without f."""
        return None if self.fit is None else self.fit.limit

    @property
    def best_for_time(self) -> ScalingPoint:
        """The smallest size with the most samples per second, within 1 %."""
        return self._least(lambda point: 1.0 / point.samples_per_s if point.samples_per_s else None) or self.base

    @property
    def best_for_cost(self) -> ScalingPoint | None:
        """The smallest size with the cheapest tokens, within 1 %; None without prices."""
        return self._least(lambda point: point.figures.get("usd_per_million_tokens"))

    @property
    def largest_efficient(self) -> ScalingPoint:
        """The largest size before the breakdown."""
        end = self.breakdown_nodes
        return max(
            (point for point in self.points if not point.problem and (end is None or point.nodes < end)),
            key=lambda point: point.nodes,
        )

    def _least(self, value: Callable[[ScalingPoint], float | None]) -> ScalingPoint | None:
        found = [(each, point) for point in self.points if (each := value(point)) is not None]
        if not found:
            return None
        least = min(each for each, _ in found)
        return next(point for each, point in found if each <= least * (1.0 + EQUAL))

    def as_dict(self) -> dict[str, Any]:
        """The study as data for JSON."""
        cheapest = self.best_for_cost
        return {
            "name": self.name,
            "mode": self.mode,
            "rows": self.rows,
            "base_nodes": self.base.nodes,
            "breakdown_nodes": self.breakdown_nodes,
            "fits": {law: each.as_dict() for law, each in self.fits.items()},
            "best_for_time_nodes": self.best_for_time.nodes,
            "best_for_cost_nodes": None if cheapest is None else cheapest.nodes,
            "largest_efficient_nodes": self.largest_efficient.nodes,
        }

    def summary(self) -> str:
        """The study as text: a table and conclusions."""
        from simsys.report.listing import WIDTH, table
        from simsys.report.text import number

        rows = [
            {
                "nodes": point.nodes,
                "gpus": point.gpus,
                "batch per gpu": point.batch_size_per_gpu or "-",
                "iteration_s": point.iteration_s,
                "samples/s": number(point.samples_per_s),
                "efficiency": "-" if efficiency is None else f"{efficiency:.1%}".replace("%", " %"),
                **({"USD/M tokens": self._price(point)} if "usd_per_million_tokens" in self.figures else {}),
            }
            for point in self.points
            for efficiency in [self.efficiency(point)]
        ]
        conclusions = (textwrap.fill(line, WIDTH) for line in self._conclusions())
        return "\n".join([f"{self.name}: {self.mode} scaling", "", table(rows), "", *conclusions])

    @staticmethod
    def _price(point: ScalingPoint) -> str:
        usd = point.figures.get("usd_per_million_tokens")
        return "-" if usd is None else f"{usd:.3g}"

    def _conclusions(self) -> list[str]:
        lines = [f"{_nodes(point.nodes)}: {point.problem}" for point in self.points if point.problem]
        if self.base.nodes != 1:
            lines.append(f"relative to {_nodes(self.base.nodes)}, the smallest simulated size")
        found = "at none of these sizes" if self.breakdown_nodes is None else f"from {_nodes(self.breakdown_nodes)}"
        lines.append(f"efficiency is below {ACCEPTABLE_EFFICIENCY:.0%} {found}".replace("%", " %"))
        if self.fit is None:
            lines.append("a single size has no serial fraction: a fit needs two")
        else:
            limit = f"; the speed-up stays below {self.speedup_limit:.1f}" if self.speedup_limit else ""
            law, deviation = self.fit.law, f"{self.fit.deviation:.1%}".replace("%", " %")
            lines.append(f"serial fraction {self.fit.fraction:.2g} (fit of {law}'s law){limit}")
            lines.append(f"speed-ups deviate from this law by up to {deviation}")
        lines.append(f"best size: {_nodes(self.best_for_time.nodes)} for time{self._cheapest()}")
        return lines

    def _cheapest(self) -> str:
        cheapest = self.best_for_cost
        return "" if cheapest is None else f", {_nodes(cheapest.nodes)} for cost"


def _nodes(count: int) -> str:
    return f"{count} node{'s' if count > 1 else ''}"
