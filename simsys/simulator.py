"""The facade: a scenario in, a result out."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from simsys.analysis.bottleneck import Bottleneck
from simsys.analysis.bottlenecks import find_bottlenecks
from simsys.analysis.losses import Loss, largest_losses
from simsys.check import sound
from simsys.config.experiment import SimulationConfig
from simsys.metrics.history import EventHistory
from simsys.metrics.result import RunResult
from simsys.probes import Probe
from simsys.simulation import Processes, simulate


class DistributedAISimulator:
    """Simulates one scenario.

    Args:
        config: The scenario.
        probes: Further observers.
        processes: Creates your SimPy processes from the `Platform` of the scenario. They may request its GPUs and
            links and submit tasks and transfers. The run ends with the scenario.

    Examples:
        >>> from simsys import DistributedAISimulator, SimulationConfig
        >>> config = SimulationConfig(
        ...     hardware={"gpu": "H100-SXM"},
        ...     model={"name": "GPT2-Small"},
        ...     training={"batch_size_per_gpu": 8, "num_iterations": 2},
        ... )
        >>> DistributedAISimulator(config).run().metrics["iterations"]
        2
    """

    def __init__(
        self, config: SimulationConfig, probes: Iterable[Probe] = (), processes: Processes | None = None
    ) -> None:
        self.config = config
        self.probes = list(probes)
        self.processes = processes
        self.engine = EventHistory()
        """The event history, filled if ``simulation.collect_events`` is set."""
        self.result: RunResult | None = None

    def run(self) -> RunResult:
        """Simulate the scenario, if `simsys check` would accept it.

        Raises:
            ConfigError: With all that is wrong with it.
            InfeasibleError: If it does not fit its hardware.
            SimsysError: If it cannot be carried out.
        """
        built = sound(self.config)
        self.engine = EventHistory()
        history = [self.engine] if self.config.simulation.collect_events else []
        self.result = simulate(self.config, [*history, *self.probes], self.processes, built=built)
        return self.result

    def get_summary(self) -> str:
        """The result of the last `run` as text; this and what follows run the scenario first if need be."""
        from simsys.report.summary import summary_text

        return summary_text(self._result())

    def analyze(self) -> list[Bottleneck]:
        """What holds the scenario up, the worst first; see `find_bottlenecks`."""
        return find_bottlenecks(self._result())

    def losses(self) -> list[Loss]:
        """Where most of the time goes that is not useful computation; see `largest_losses`."""
        return largest_losses(self._result())

    def visualize(self, folder: str | Path = "results") -> list[Path]:
        """Draw the result below ``folder/<name>``; return the images.

        Raises:
            OutputError: If one could not be written.
        """
        from simsys.contents.run import content_of
        from simsys.plots.observed import observed
        from simsys.plots.picture import write_pictures

        result = self._result()
        content = content_of(self.config, result, observed(self.config, result).tables)
        return write_pictures(content, Path(folder) / self.config.name)

    def export_results(self, folder: str | Path = "results") -> list[Path]:
        """Write the resolved config, the results, the rows and the bottlenecks below ``folder/<name>``.

        Returns:
            The files.

        Raises:
            OutputError: If one could not be written; none is left half-written.
        """
        from simsys.report.export import write_results

        return write_results(self.config, self._result(), Path(folder))

    def _result(self) -> RunResult:
        return self.result if self.result is not None else self.run()


def load_config(path: str | Path, scenario: str | None = None) -> SimulationConfig:
    """Read a scenario from an experiment file; see `SimulationConfig.from_yaml`."""
    return SimulationConfig.from_yaml(path, scenario)
