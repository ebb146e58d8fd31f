"""One side of a comparison: a scenario to simulate, the results of a run, or a measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from simsys.check import sound
from simsys.config.experiment import SimulationConfig
from simsys.errors import InfeasibleError
from simsys.metrics.result import RunResult
from simsys.report.outcome import ScenarioPlan, run_scenario
from simsys.sums import ordered_sum


@dataclass(frozen=True)
class Side:
    """One side of a comparison.

    Args:
        label: Its name, unique in a comparison.
        kind: ``training``, ``serving`` or ``jobs``.
        given: ``scenario``, ``results`` or ``measurement``.
        source: Where it is from, for people.
        config: Its settings; None if they are not known.
        runs: The metrics of its runs, one for each seed; empty for a scenario that is not simulated yet.
        plan: The checked scenario; None for results and measurements.
        warnings: What makes its figures doubtful.
    """

    label: str
    kind: str
    given: Literal["scenario", "results", "measurement"]
    source: str
    config: SimulationConfig | None = None
    runs: Sequence[Mapping[str, Any]] = ()
    plan: ScenarioPlan | None = None
    warnings: Sequence[str] = ()

    @property
    def metrics(self) -> Mapping[str, Any]:
        """The metrics of the first run; numbers are means over the runs."""
        first = self.runs[0]
        if len(self.runs) == 1:
            return first
        return {name: _mean([run.get(name) for run in self.runs]) for name in first}

    @property
    def seed(self) -> int | None:
        """The seed of its settings; None if they are not known."""
        return None if self.config is None else self.config.simulation.seed

    def as_dict(self) -> dict[str, Any]:
        """The side, ready for JSON."""
        return {
            "name": self.label,
            "kind": self.kind,
            "given": self.given,
            "source": self.source,
            "runs": len(self.runs),
            "warnings": list(self.warnings),
        }


def simulated(side: Side, seeds: int, first_seed: int) -> Side:
    """Return a side with the metrics of its runs; only a scenario is simulated.

    Args:
        side: The side.
        seeds: Number of runs; with one, the scenario keeps its own seed.
        first_seed: The seed of the first of several runs; each further run has the next one.

    Raises:
        SimsysError: If it does not fit or cannot be carried out.
    """
    if side.plan is None:
        return side
    if seeds == 1:
        results = [_result(side.plan)]
    else:
        results = [_result(_with_seed(side.plan, first_seed + each)) for each in range(seeds)]
    warnings = list(dict.fromkeys(text for result in results for text in result.warnings))
    return replace(side, runs=[result.metrics for result in results], warnings=[*side.warnings, *warnings])


def _result(plan: ScenarioPlan) -> RunResult:
    outcome = run_scenario(plan, None)
    if outcome.result is None:
        raise InfeasibleError(f"{plan.name}: {outcome.reason}") from outcome.error
    return outcome.result


def _with_seed(plan: ScenarioPlan, seed: int) -> ScenarioPlan:
    config = plan.config.model_copy(update={"simulation": plan.config.simulation.model_copy(update={"seed": seed})})
    return replace(plan, config=config, built=sound(config))


def _mean(values: Sequence[Any]) -> Any:
    """Return the mean of numbers; the first value of anything else, None where any is missing."""
    if any(value is None for value in values):
        return None
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in values):
        return values[0]
    return ordered_sum(values) / len(values)
