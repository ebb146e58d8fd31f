"""One way to simulate a scenario, measured: what it costs and what it answers."""

from __future__ import annotations

import gc
import statistics
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from simsys.config.experiment import SimulationConfig
from simsys.errors import InternalError, SimsysError
from simsys.level_study.amounts import amount, with_amount
from simsys.level_study.variants import MEDIUM, as_variant
from simsys.metrics.result import RunResult
from simsys.sums import ordered_sum

SERVING_FIGURES = (
    "mean_ttft_ms",
    "mean_tpot_ms",
    "mean_e2el_ms",
    "request_throughput",
    "total_token_throughput",
    "completed",
)
TRAINING_FIGURES = ("mean_iteration_s", "mfu", "exposed_communication_s")
ENOUGH_S = 10.0
"""No further repeat is begun that would take the repeats beyond this; there is always one."""
WARM_UP = 2
"""Requests or iterations of the run before those that are measured, which loads what is loaded once."""


@dataclass(frozen=True)
class Measurement:
    """What a variant costs and answers.

    Args:
        variant: Which.
        wall_s: From the scenario to its figures, each repeat.
        cpu_s: CPU time of the same.
        events: SimPy events.
        peak_bytes: By how much memory grew; None where the system does not say.
        simulated_s: Simulated time.
        contention: How links are shared.
        simulated_ranks: Ranks that are simulated.
        ranks: Ranks of the scenario.
        steps: Steps of serving replicas.
        figures: What it answers, by name.
    """

    variant: str
    wall_s: Sequence[float]
    cpu_s: Sequence[float]
    events: int
    peak_bytes: float | None
    simulated_s: float
    contention: str
    simulated_ranks: int
    ranks: int
    steps: int
    figures: Mapping[str, float]

    @property
    def median_wall_s(self) -> float:
        """Of the repeats."""
        return statistics.median(self.wall_s)

    @property
    def median_cpu_s(self) -> float:
        """Of the repeats."""
        return statistics.median(self.cpu_s)

    def again(self, later: Measurement) -> Measurement:
        """The repeats of both, of the same scenario.

        Raises:
            InternalError: If they differ in their events.
        """
        if later.events != self.events:
            raise InternalError(f"the same scenario took {self.events} and {later.events} events")
        return replace(self, wall_s=(*self.wall_s, *later.wall_s), cpu_s=(*self.cpu_s, *later.cpu_s))

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON, with what follows from it."""
        return {
            **asdict(self),
            "median_wall_s": self.median_wall_s,
            "median_cpu_s": self.median_cpu_s,
            "wall_spread_s": max(self.wall_s) - min(self.wall_s),
            "cpu_spread_s": max(self.cpu_s) - min(self.cpu_s),
            "events_per_cpu_s": self.events / max(self.median_cpu_s, 1e-9),
        }


def measure(config: SimulationConfig, variant: str, repeats: int = 1) -> Measurement:
    """Simulate a scenario a few times in this process.

    Args:
        config: The scenario.
        variant: How; see `as_variant`.
        repeats: How often, at most.

    Raises:
        SimsysError: If it cannot be built or cannot be carried out.
        InternalError: If the repeats differ in their events.
    """
    scenario = as_variant(config, variant)
    with suppress(SimsysError):  # what is wrong is wrong with the whole scenario too, and is said there
        as_variant(with_amount(config, min(WARM_UP, amount(config))), MEDIUM).simulate()
    before = _peak_bytes()
    wall_s, cpu_s, counts = list[float](), list[float](), set[int]()
    while not wall_s or (len(wall_s) < repeats and ordered_sum(wall_s) + max(wall_s) <= ENOUGH_S):
        gc.collect()
        result = scenario.simulate()
        wall_s.append(result.wall_s)
        cpu_s.append(result.cpu_s)
        counts.add(result.events)
    if len(counts) > 1:
        raise InternalError(f"{config.name}: the same scenario took {' and '.join(map(str, sorted(counts)))} events")
    return Measurement(
        variant,
        tuple(wall_s),
        tuple(cpu_s),
        result.events,
        None if before is None else (_peak_bytes() or 0.0) - before,
        result.simulated_s,
        result.contention,
        result.simulated_ranks,
        result.world_size,
        result.metrics.get("steps", 0),
        figures(result),
    )


def figures(result: RunResult) -> dict[str, float]:
    """What is compared of a result; of several jobs, that of each after its name."""
    if result.jobs:
        return {f"{job.name}.{name}": value for job in result.jobs for name, value in figures(job).items()}
    names = TRAINING_FIGURES if result.kind == "training" else SERVING_FIGURES
    return {name: result.metrics[name] for name in names}


def differences(found: Mapping[str, float], true: Mapping[str, float]) -> dict[str, float]:
    """By what share of the true figures others differ from them."""
    return {name: _difference(found[name], value) for name, value in true.items()}


def _difference(found: float, true: float) -> float:
    if found == true:
        return 0.0
    return found / true - 1.0 if true else float("inf")


def _peak_bytes() -> float | None:
    """The most memory that this process has had; None where it cannot be asked for."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak) if sys.platform == "darwin" else 1024.0 * peak
