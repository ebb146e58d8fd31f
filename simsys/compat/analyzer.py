"""Analyses of a result, with methods of one's own beside them."""

from __future__ import annotations

from typing import Any

from simsys.analysis.bottlenecks import find_bottlenecks
from simsys.metrics.result import RunResult


class SimulationAnalyzer:
    """What holds a run up; a subclass adds metrics as methods ``analyze_…(resource_stats)``.

    Metrics that are to reach files and ``--fail-on`` are plug-ins (docs/how-to/extending.md).

    Args:
        result: The run.
    """

    def __init__(self, result: RunResult) -> None:
        self.result = result

    def perform_full_analysis(self) -> dict[str, Any]:
        """The bottlenecks, the worst first, and the value of each method ``analyze_…`` for the metrics of the run."""
        own = sorted(name for name in dir(self) if name.startswith("analyze_"))
        values = {name.removeprefix("analyze_"): getattr(self, name)(self.result.metrics) for name in own}
        return {"bottlenecks": find_bottlenecks(self.result), **values}
