"""The facade: a scenario in, a result out."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from simsys.build.serving import ServingJob, build_serving
from simsys.build.training import TrainingJob, build_training
from simsys.config.experiment import SimulationConfig
from simsys.executors import LEVELS
from simsys.metrics.history import EventHistory
from simsys.metrics.result import RunResult
from simsys.probes import Probe, Probes


class DistributedAISimulator:
    """Simulates one scenario.

    Args:
        config: The scenario.
        probes: Further observers.

    Example:
        >>> from simsys import DistributedAISimulator, SimulationConfig
        >>> config = SimulationConfig(
        ...     hardware={"gpu": "H100-SXM"},
        ...     model={"name": "GPT2-Small"},
        ...     training={"batch_size_per_gpu": 8, "num_iterations": 2},
        ... )
        >>> DistributedAISimulator(config).run().metrics["iterations"]
        2
    """

    def __init__(self, config: SimulationConfig, probes: Iterable[Probe] = ()) -> None:
        self.config = config
        self.probes = list(probes)
        self.engine = EventHistory()
        """The event history, filled if ``simulation.collect_events`` is set."""
        self.result: RunResult | None = None

    def run(self) -> RunResult:
        """Simulate the scenario.

        Raises:
            SimsysError: If it cannot be built or cannot be carried out.
        """
        started, started_cpu = time.perf_counter(), time.process_time()
        job = build_job(self.config)
        collector = job.collector()
        platform = job.cluster.platform()
        level = LEVELS[self.config.simulation.lod]
        history = [self.engine] if self.config.simulation.collect_events else []
        roles = job.roles()
        executor = level(platform, job.execution_model(), roles, Probes([collector, *history, *self.probes]))
        job.start(executor)
        platform.env.run()
        executor.check_finished()
        self.result = RunResult(
            name=self.config.name,
            kind=self.config.kind,
            lod=self.config.simulation.lod,
            contention=platform.network.contention,
            metrics=collector.metrics(),
            rows=collector.rows(),
            memory_bytes=job.memory_bytes,
            memory_capacity_bytes=job.cluster.spec.memory_bytes,
            assumptions=job.assumptions(),
            simulated_s=collector.end_s,
            events=platform.env.events_scheduled,
            wall_s=time.perf_counter() - started,
            cpu_s=time.process_time() - started_cpu,
        )
        return self.result

    def get_summary(self) -> str:
        """The result of the last `run` as text; runs the scenario first if that has not happened."""
        from simsys.report.summary import summary_text

        return summary_text(self.result if self.result is not None else self.run())

    def export_results(self, folder: str | Path = "results") -> list[Path]:
        """Write the resolved config, the results and the rows below ``folder/<name>``; return the files."""
        from simsys.report.export import write_results

        return write_results(self.config, self.result if self.result is not None else self.run(), Path(folder))


def build_job(config: SimulationConfig) -> TrainingJob | ServingJob:
    """Resolve a scenario into what can be started.

    Raises:
        SimsysError: If it names something unknown or does not fit together.
    """
    return build_training(config) if config.training is not None else build_serving(config)


def load_config(path: str | Path, scenario: str | None = None) -> SimulationConfig:
    """Read a scenario from an experiment file; see `SimulationConfig.from_yaml`."""
    return SimulationConfig.from_yaml(path, scenario)
