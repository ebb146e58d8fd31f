"""Results of a scaling study: efficiency, its breakdown, and the serial fraction."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from simsys.sums import ordered_sum

if TYPE_CHECKING:
    import pandas

Mode = Literal["weak", "strong"]
ACCEPTABLE_EFFICIENCY = 0.7
"""Efficiency below which scaling counts as broken down; the first design document's threshold."""


@dataclass(frozen=True)
class ScalingPoint:
    """One size of the cluster.

    Args:
        nodes: Nodes.
        gpus: GPUs.
        batch_size_per_gpu: Samples per GPU and micro-batch.
        iteration_s: Mean time of an iteration; None if the point cannot be simulated.
        samples_per_s: Throughput of all GPUs together.
        problem: The reason why the point cannot be simulated.
    """

    nodes: int
    gpus: int
    batch_size_per_gpu: int
    iteration_s: float | None = None
    samples_per_s: float | None = None
    problem: str = ""


@dataclass(frozen=True)
class ScalingResult:
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
            "efficiency": [self.efficiency(point) for point in self.points],
            "problem": [point.problem for point in self.points],
        }

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
    def serial_fraction(self) -> float | None:
        """The serial fraction of the base's time; None with fewer than two points.

        Fitted by least squares, through the origin, to the law of the mode, which is linear in the fraction f:

        - strong scaling (Amdahl 1967): 1/S = f + (1 - f)/N, so 1/S - 1/N = f (1 - 1/N), in which f of a single
          point is the metric of Karp and Flatt 1990;
        - weak scaling (Gustafson 1988): S = N - f (N - 1), so N - S = f (N - 1).

        N is the number of GPUs over the base's, S the speed-up in samples per second. Superlinear scaling gives 0.
        """
        ideal = [point.gpus / self.base.gpus for point in self.points if not point.problem]
        efficiency = [self.efficiency(point) for point in self.points if not point.problem]
        speedup = [size * (share or 0.0) for size, share in zip(ideal, efficiency, strict=True)]
        if self.mode == "strong":
            x = [1 - 1 / size for size in ideal]
            y = [1 / fast - 1 / size for size, fast in zip(ideal, speedup, strict=True)]
        else:
            x = [size - 1 for size in ideal]
            y = [size - fast for size, fast in zip(ideal, speedup, strict=True)]
        weight = ordered_sum(a * a for a in x)
        if not weight:
            return None
        return min(1.0, max(0.0, ordered_sum(a * b for a, b in zip(x, y, strict=True)) / weight))

    @property
    def speedup_limit(self) -> float | None:
        """Amdahl's limit 1/f of the speed-up over the base; None for weak scaling, which has none, or without f."""
        return 1 / self.serial_fraction if self.mode == "strong" and self.serial_fraction else None

    def summary(self) -> str:
        """The study as text: a table and conclusions."""
        from simsys.report.listing import WIDTH, table

        rows = [
            {
                "nodes": point.nodes,
                "gpus": point.gpus,
                "batch per gpu": point.batch_size_per_gpu,
                "iteration_s": point.iteration_s,
                "samples/s": "-" if point.samples_per_s is None else f"{point.samples_per_s:,.0f}",
                "efficiency": "-" if efficiency is None else f"{efficiency:.1%}".replace("%", " %"),
            }
            for point in self.points
            for efficiency in [self.efficiency(point)]
        ]
        conclusions = (textwrap.fill(line, WIDTH) for line in self._conclusions())
        return "\n".join([f"{self.name}: {self.mode} scaling", "", table(rows), "", *conclusions])

    def _conclusions(self) -> list[str]:
        lines = [f"{_nodes(point.nodes)}: {point.problem}" for point in self.points if point.problem]
        if self.base.nodes != 1:
            lines.append(f"relative to {_nodes(self.base.nodes)}, the smallest simulated size")
        found = "at none of these sizes" if self.breakdown_nodes is None else f"from {_nodes(self.breakdown_nodes)}"
        lines.append(f"efficiency is below {ACCEPTABLE_EFFICIENCY:.0%} {found}".replace("%", " %"))
        fraction = self.serial_fraction
        if fraction is not None:
            law = "Amdahl" if self.mode == "strong" else "Gustafson"
            limit = f"; the speed-up stays below {self.speedup_limit:.1f}" if self.speedup_limit else ""
            lines.append(f"serial fraction {fraction:.2g} (fit of {law}'s law){limit}")
        return lines


def _nodes(count: int) -> str:
    return f"{count} node{'s' if count > 1 else ''}"
