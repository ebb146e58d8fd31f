"""Scaling studies: the same training on more and more nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from simsys.build.cluster import build_cluster
from simsys.build.training import build_training
from simsys.config.experiment import SimulationConfig
from simsys.errors import InfeasibleError, UsageError, did_you_mean
from simsys.levers import changed
from simsys.simulation import simulate

if TYPE_CHECKING:
    import pandas

Mode = Literal["weak", "strong"]
MODES = ("weak", "strong")
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
        problem: Why the point cannot be simulated.
    """

    nodes: int
    gpus: int
    batch_size_per_gpu: int
    iteration_s: float | None = None
    samples_per_s: float | None = None
    problem: str = ""


@dataclass(frozen=True)
class ScalingResult:
    """What a study found out.

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
        columns = ("nodes", "gpus", "batch_size_per_gpu", "iteration_s", "samples_per_s", "problem")
        rows: dict[str, list[Any]] = {name: [getattr(point, name) for point in self.points] for name in columns}
        efficiency = [self.efficiency(point) for point in self.points]
        return {**{name: rows[name] for name in columns[:-1]}, "efficiency": efficiency, "problem": rows["problem"]}

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
        """The share of the base's time that more GPUs do not shorten; None with fewer than two points.

        Fitted by least squares, through the origin, to the law of the mode, which is linear in the fraction f:

        - strong scaling (Amdahl 1967): 1/S = f + (1 - f)/N, hence 1/S - 1/N = f (1 - 1/N), in which f of a single
          point is the metric of Karp and Flatt 1990;
        - weak scaling (Gustafson 1988): S = N - f (N - 1), hence N - S = f (N - 1).

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
        weight = sum(a * a for a in x)
        if not weight:
            return None
        return min(1.0, max(0.0, sum(a * b for a, b in zip(x, y, strict=True)) / weight))

    @property
    def speedup_limit(self) -> float | None:
        """Amdahl's limit 1/f of the speed-up over the base; None for weak scaling, which has none, or without f."""
        return 1 / self.serial_fraction if self.mode == "strong" and self.serial_fraction else None

    def summary(self) -> str:
        """The study as text: a table and what it means."""
        from simsys.report.listing import table

        rows = [
            {
                "nodes": point.nodes,
                "gpus": point.gpus,
                "batch per gpu": point.batch_size_per_gpu,
                "iteration_s": point.iteration_s,
                "samples/s": "-" if point.samples_per_s is None else f"{point.samples_per_s:,.0f}",
                "efficiency": "-" if efficiency is None else f"{efficiency:.1%}".replace("%", " %"),
                "problem": point.problem,
            }
            for point in self.points
            for efficiency in [self.efficiency(point)]
        ]
        return "\n".join([f"{self.name}: {self.mode} scaling", "", table(rows), "", *self._conclusions()])

    def _conclusions(self) -> list[str]:
        nodes = self.breakdown_nodes
        found = f"from {nodes} nodes" if nodes is not None else "at none of these sizes"
        lines = [f"efficiency is below {ACCEPTABLE_EFFICIENCY:.0%} {found}".replace("%", " %")]
        if self.base.nodes != 1:
            lines.append(f"all is relative to {self.base.nodes} nodes, the smallest size that could be simulated")
        fraction = self.serial_fraction
        if fraction is not None:
            law = "Amdahl" if self.mode == "strong" else "Gustafson"
            limit = f"; the speed-up stays below {self.speedup_limit:.1f}" if self.speedup_limit else ""
            lines.append(f"serial fraction {fraction:.2g} (fit of {law}'s law){limit}")
        return lines

    def visualize(self, folder: str | Path = "results") -> list[Path]:
        """Draw throughput and efficiency as ``folder/scaling_efficiency.png``; return the image.

        Raises:
            OutputError: If it could not be written.
        """
        from simsys.report.plots import plot_scaling

        return [plot_scaling(self, Path(folder) / "scaling_efficiency.png")]


class ScalingStudyRunner:
    """Simulates a training scenario on several numbers of nodes.

    Args:
        base_config: The scenario; its number of nodes gives the global batch of strong scaling. The data-parallel
            degree follows the GPUs.

    Raises:
        UsageError: If it is not training.

    Example:
        >>> from simsys import ScalingStudyRunner, create_medium_scale_config
        >>> study = ScalingStudyRunner(create_medium_scale_config())
        >>> study.run_scaling_study([1, 2]).rows["gpus"]
        [8, 16]
    """

    def __init__(self, base_config: SimulationConfig) -> None:
        if base_config.training is None:
            raise UsageError(f"a scaling study needs training, {base_config.name} is {base_config.kind}")
        strategy = base_config.parallelism.strategy
        follow = {
            "parallelism.dp_degree": None,
            "parallelism.strategy": None if strategy == "None" else strategy,  # one GPU may need none, several do
        }
        self.base_config = changed(base_config, follow)
        self.result: ScalingResult | None = None

    def run_scaling_study(self, num_nodes: Sequence[int], mode: Mode = "weak") -> ScalingResult:
        """Simulate each size.

        Args:
            num_nodes: Numbers of nodes, in any order.
            mode: ``weak`` keeps the batch per GPU, ``strong`` the global batch of the base scenario.

        Returns:
            The study; a size that does not fit or cannot be built is a point with a problem.

        Raises:
            UsageError: If a number is not a positive integer or comes twice, the mode is unknown, the global batch
                cannot be divided, or none of the sizes can be simulated.
        """
        sizes = _checked(num_nodes)
        if mode not in MODES:
            raise UsageError(f"unknown mode {mode!r} of a scaling study{did_you_mean(mode, MODES)}")
        gpus_per_node = self._gpus_per_node()
        configs = self._weak(sizes) if mode == "weak" else self._strong(sizes, gpus_per_node)
        points = [_point(config, gpus_per_node) for config in configs]
        if all(point.problem for point in points):
            raise UsageError(f"none of these numbers of nodes can be simulated: {points[0].problem}")
        self.result = ScalingResult(self.base_config.name, mode, points)
        return self.result

    def visualize(self, folder: str | Path = "results") -> list[Path]:
        """Draw the last study; see `ScalingResult.visualize`.

        Raises:
            UsageError: If there is none yet.
        """
        if self.result is None:
            raise UsageError("there is no scaling study to draw; call run_scaling_study first")
        return self.result.visualize(folder)

    def _gpus_per_node(self) -> int:
        one_node = changed(self.base_config, {"hardware.num_nodes": 1})
        return build_cluster(one_node.hardware, one_node.network).gpus_per_node

    def _weak(self, sizes: Sequence[int]) -> list[SimulationConfig]:
        return [changed(self.base_config, {"hardware.num_nodes": nodes}) for nodes in sizes]

    def _strong(self, sizes: Sequence[int], gpus_per_node: int) -> list[SimulationConfig]:
        """Share the base's global batch among the data-parallel ranks of each size."""
        base = build_training(self.base_config)
        samples = base.settings.batch_size_per_gpu * base.layout.data
        shards = base.layout.world_size // base.layout.data
        configs = []
        for nodes in sizes:
            ranks = nodes * gpus_per_node / shards
            if samples % ranks:
                raise UsageError(
                    f"a global batch of {samples} cannot be divided evenly among {ranks:g} data-parallel ranks "
                    f"({nodes} nodes); choose a number of nodes or a batch_size_per_gpu that divides"
                )
            lever = {"hardware.num_nodes": nodes, "training.batch_size_per_gpu": int(samples // ranks)}
            configs.append(changed(self.base_config, lever))
        return configs


def _checked(num_nodes: Sequence[int]) -> list[int]:
    """The numbers, ascending."""
    for nodes in num_nodes:
        if isinstance(nodes, bool) or not isinstance(nodes, int) or nodes < 1:
            raise UsageError(f"a number of nodes is a positive integer, not {nodes!r}")
    sizes = sorted(set(num_nodes))
    if not sizes:
        raise UsageError("a scaling study needs at least one number of nodes, e.g. [1, 2, 4, 8]")
    if len(sizes) < len(num_nodes):
        raise UsageError(f"each number of nodes is simulated once, but {list(num_nodes)} has some twice")
    return sizes


def _point(config: SimulationConfig, gpus_per_node: int) -> ScalingPoint:
    assert config.training is not None
    nodes, batch = config.hardware.num_nodes, config.training.batch_size_per_gpu
    try:
        metrics = simulate(config).metrics
    except (InfeasibleError, UsageError) as error:
        return ScalingPoint(nodes, nodes * gpus_per_node, batch, problem=str(error))
    iteration_s = cast(float, metrics["mean_iteration_s"])
    return ScalingPoint(nodes, nodes * gpus_per_node, batch, iteration_s, metrics["samples_per_s"])
