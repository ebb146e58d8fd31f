"""Scaling studies: one training job on increasing numbers of nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast, get_args

from simsys.analysis.scaling_result import FIGURES, Mode, ScalingPoint, ScalingResult
from simsys.build.cluster import build_cluster
from simsys.build.job import build_job
from simsys.build.training import TrainingJob
from simsys.check import sound
from simsys.check.effort import cpu_parts
from simsys.check.remedies import changed
from simsys.config.experiment import SimulationConfig
from simsys.config.parallelism import DATA_STRATEGIES
from simsys.errors import InfeasibleError, UsageError, did_you_mean
from simsys.simulation import simulate
from simsys.sums import ordered_sum

MODES = get_args(Mode)


class ScalingStudyRunner:
    """Simulates a training scenario on several numbers of nodes.

    Args:
        base_config: The scenario; its number of nodes gives the global batch of strong scaling. The data-parallel
            degree follows the GPUs.

    Raises:
        UsageError: If it is not training.

    Examples:
        >>> from simsys import ScalingStudyRunner, create_medium_scale_config
        >>> study = ScalingStudyRunner(create_medium_scale_config())
        >>> study.run_scaling_study([1, 2]).rows["gpus"]
        [8, 16]
    """

    def __init__(self, base_config: SimulationConfig) -> None:
        if base_config.training is None:
            raise UsageError(f"a scaling study needs training, {base_config.name} is {base_config.kind}")
        follow = {"parallelism.dp_degree": None, "parallelism.strategy": _strategy_of_replicas(base_config)}
        self.base_config = changed(base_config, follow)
        self.result: ScalingResult | None = None

    def run_scaling_study(
        self, num_nodes: Sequence[int], mode: Mode = "weak", limit_s: float = math.inf
    ) -> ScalingResult:
        """Simulate each size.

        Args:
            num_nodes: Numbers of nodes, in any order.
            mode: ``weak`` keeps the batch per GPU, ``strong`` the global batch of the base scenario.
            limit_s: Limit of the estimated processor time of a size.

        Returns:
            The study; a size that cannot be simulated is a point with a problem.

        Raises:
            UsageError: If a number is not a positive integer or comes twice, the mode is unknown, or none of the sizes
                can be simulated.
        """
        sizes = _checked(num_nodes)
        if mode not in MODES:
            raise UsageError(f"unknown mode {mode!r} of a scaling study{did_you_mean(mode, MODES)}")
        if self.base_config.hardware.nodes is not None:
            raise UsageError("a scaling study varies num_nodes; give one kind of nodes (profile), not hardware.nodes")
        gpus_per_node = self._gpus_per_node()
        configs = self._weak(sizes) if mode == "weak" else self._strong(sizes, gpus_per_node)
        points = [
            ScalingPoint(nodes, nodes * gpus_per_node, 0, problem=config)
            if isinstance(config, str)
            else _point(config, gpus_per_node, limit_s)
            for nodes, config in zip(sizes, configs, strict=True)
        ]
        if all(point.problem for point in points):
            raise UsageError(f"none of these numbers of nodes can be simulated: {points[0].problem}")
        self.result = ScalingResult(self.base_config.name, mode, points)
        return self.result

    def visualize(self, folder: str | Path = "results") -> list[Path]:
        """Draw throughput and efficiency of the last study as ``folder/scaling_efficiency.png``; return the image.

        Raises:
            UsageError: If no study has run yet.
            OutputError: If the image could not be written.
        """
        from simsys.plots.drawing import styled, write_figure
        from simsys.plots.kinds.scaling import of_study

        if self.result is None:
            raise UsageError("there is no scaling study to draw; call run_scaling_study first")
        with styled():
            figure = of_study(self.result)
        return [write_figure(figure, Path(folder) / "scaling_efficiency.png")]

    def _gpus_per_node(self) -> int:
        one_node = changed(self.base_config, {"hardware.num_nodes": 1})
        return build_cluster(one_node.hardware, one_node.network, one_node.folder).gpus_per_node

    def _weak(self, sizes: Sequence[int]) -> list[SimulationConfig]:
        """Keep samples and micro-batches of each rank, which a global batch gives for the base's size alone."""
        kept: dict[str, Any] = {}
        if self._has_global_batch:
            training = build_job(self.base_config).config.training
            assert training is not None  # which was requested at the beginning
            steps = training.gradient_accumulation_steps
            kept = {"training.global_batch_size": None, "training.gradient_accumulation_steps": steps}
        return [changed(self.base_config, {"hardware.num_nodes": nodes, **kept}) for nodes in sizes]

    @property
    def _has_global_batch(self) -> bool:
        training = self.base_config.training
        return training is not None and training.global_batch_size is not None

    def _strong(self, sizes: Sequence[int], gpus_per_node: int) -> list[SimulationConfig | str]:
        """Share the base's global batch among the data-parallel ranks of each size, or say why it cannot be divided.

        Micro-batches become smaller; if the scenario has ``global_batch_size``, they become fewer.
        """
        if self._has_global_batch:
            return [changed(self.base_config, {"hardware.num_nodes": nodes}) for nodes in sizes]
        base = build_job(self.base_config)
        assert isinstance(base, TrainingJob)  # which was requested at the beginning
        if any(phase.batch_size_per_gpu != base.settings.batch_size_per_gpu for phase in base.phases):
            raise UsageError("strong scaling divides batch_size_per_gpu; let batch_schedule change the steps only")
        samples = base.settings.batch_size_per_gpu * base.layout.data
        shards = base.layout.world_size // base.layout.data
        configs: list[SimulationConfig | str] = []
        for nodes in sizes:
            ranks = nodes * gpus_per_node / shards
            if samples % ranks:
                configs.append(
                    f"a global batch of {samples} cannot be divided evenly among {ranks:g} data-parallel ranks; "
                    "choose a number of nodes or a batch_size_per_gpu that divides"
                )
                continue
            remedy = {"hardware.num_nodes": nodes, "training.batch_size_per_gpu": int(samples // ranks)}
            configs.append(changed(self.base_config, remedy))
        return configs


def _strategy_of_replicas(config: SimulationConfig) -> str | None:
    """The strategy of sizes with more replicas than the base: DDP is added if none is named."""
    given = config.parallelism
    if given.strategy in (None, "None"):
        return None
    own = config.training is not None and config.training.data_parallel is not None
    return given.strategy if own or given.parts.intersection(DATA_STRATEGIES) else f"{given.strategy}_DDP"


def _checked(num_nodes: Sequence[Any]) -> list[int]:
    """Check and sort the numbers of nodes."""
    for nodes in num_nodes:
        if isinstance(nodes, bool) or not isinstance(nodes, int) or nodes < 1:
            raise UsageError(f"a number of nodes is a positive integer, not {nodes!r}")
    sizes = sorted(set(num_nodes))
    if not sizes:
        raise UsageError("a scaling study needs at least one number of nodes, e.g. [1, 2, 4, 8]")
    if len(sizes) < len(num_nodes):
        raise UsageError(f"each number of nodes is simulated once, but {list(num_nodes)} has some twice")
    return sizes


def _point(config: SimulationConfig, gpus_per_node: int, limit_s: float) -> ScalingPoint:
    assert config.training is not None
    nodes, batch = config.hardware.num_nodes, config.training.batch_size_per_gpu
    point = ScalingPoint(nodes, nodes * gpus_per_node, batch)
    try:
        built = sound(config)
        seconds = ordered_sum(cpu_parts(built.jobs[0]).values())
        if seconds > limit_s:
            needs = f"needs about {seconds:.0f} s of processor time, more than --limit allows ({limit_s:g} s)"
            return replace(point, problem=f"{needs}; --yes simulates it anyway")
        metrics = simulate(config, built=built).metrics
    except (InfeasibleError, UsageError) as error:
        return replace(point, problem=str(error))
    figures = {name: metrics[name] for name in FIGURES if metrics.get(name) is not None}
    iteration_s = cast(float, metrics["mean_iteration_s"])
    return replace(point, iteration_s=iteration_s, samples_per_s=metrics["samples_per_s"], figures=figures)
