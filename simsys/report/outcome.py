"""One scenario carried out and its files written: what came of it, as text and as data."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simsys.config.experiment import SimulationConfig
from simsys.errors import InfeasibleError, OutputError, SimsysError
from simsys.metrics.result import RunResult
from simsys.report.export import write_results
from simsys.report.progress import Progress
from simsys.report.summary import headline, summary_text
from simsys.simulator import DistributedAISimulator


@dataclass(frozen=True)
class Outcome:
    """What came of one scenario.

    Args:
        name: The scenario.
        result: Its figures; None if it does not fit.
        error: Why it does not fit, or why its files could not be written.
        files: What was written.
    """

    name: str
    result: RunResult | None = None
    error: SimsysError | None = None
    files: Sequence[Path] = ()

    @property
    def exit_code(self) -> int:
        """What the command line returns for it."""
        return self.error.exit_code if self.error is not None else 0

    def text(self, *, brief: bool = False) -> str:
        """The answer for people; if `brief`, its headline alone."""
        if self.result is None:
            reason = str(self.error)
            return f"{self.name}: {reason}" if "does not fit" in reason else f"{self.name}: does not fit: {reason}"
        if brief:
            return headline(self.result)
        lines = [summary_text(self.result)]
        if self.files:
            lines += ["", "files", *(f"  {file}" for file in self.files)]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """The answer for programs: the result with the cost of computing it, or the reason for having none."""
        if self.result is None:
            return {"name": self.name, "error": str(self.error), "exit_code": self.exit_code}
        result = self.result
        performance = {
            "wall_s": result.wall_s,
            "cpu_s": result.cpu_s,
            "events_per_s": result.events / result.wall_s if result.wall_s else None,
        }
        return {**result.as_dict(), "performance": performance}


def run_scenario(config: SimulationConfig, folder: Path | None) -> Outcome:
    """Simulate a scenario and write its files.

    A scenario that does not fit, or files that cannot be written, are outcomes; other errors are raised.

    Args:
        config: The scenario.
        folder: Where its folder of files goes; None writes nothing.

    Raises:
        SimsysError: If it cannot be carried out.
    """
    try:
        result = _simulate(config)
    except InfeasibleError as error:
        return Outcome(config.name, error=error)
    if folder is None:
        return Outcome(config.name, result)
    try:
        return Outcome(config.name, result, files=write_results(config, result, folder))
    except OutputError as error:
        return Outcome(config.name, result, error)


def _simulate(config: SimulationConfig) -> RunResult:
    with ExitStack() as stack:
        watched = sys.stderr is not None and sys.stderr.isatty()
        probes = [stack.enter_context(Progress(config))] if watched else []
        return DistributedAISimulator(config, probes).run()
