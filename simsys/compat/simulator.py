"""Runs and scaling studies of scenarios that can be changed in place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from simsys import simulator
from simsys.analysis import scaling
from simsys.compat.config import SimulationConfig, core_of
from simsys.config.experiment import SimulationConfig as Core
from simsys.errors import Fix, InfeasibleConfigError
from simsys.metrics.result import RunResult
from simsys.probes import Probe


class DistributedAISimulator(simulator.DistributedAISimulator):
    """`simsys.DistributedAISimulator`, for programs that expect any scenario to run.

    The earlier designs do not check memory. Here, a scenario that does not fit its GPUs runs with the best of the
    settings that the check has tried, and the first warning of the result names them.

    Args:
        config: The scenario.
        probes: Further observers.
    """

    def __init__(self, config: SimulationConfig | Core, probes: Iterable[Probe] = ()) -> None:
        super().__init__(core_of(config), probes)

    def run(self) -> RunResult:
        """Simulate the scenario; errors as `simsys.DistributedAISimulator.run`."""
        try:
            return super().run()
        except InfeasibleConfigError as error:
            fix = _remedy(error)
            if fix is None:
                raise
            self.config = self.config.with_(fix.edits)
            settings = ", ".join(f"{path}: {value}" for path, value in fix.edits.items())
            text = f"the scenario does not fit its GPUs and was simulated with {settings} ({error.in_one_line})"
        result = super().run()
        self.result = replace(result, warnings=(text, *result.warnings))
        return self.result


class ScalingStudyRunner(scaling.ScalingStudyRunner):
    """`simsys.ScalingStudyRunner`.

    Args:
        base_config: The scenario.
    """

    def __init__(self, base_config: SimulationConfig | Core) -> None:
        super().__init__(core_of(base_config))


def _remedy(error: InfeasibleConfigError) -> Fix | None:
    """The best settings with which the whole scenario passes the check."""
    return next((fix for problem in error.problems for fix in problem.fixes if fix.alone), None)
