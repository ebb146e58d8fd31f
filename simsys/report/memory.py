"""What scenarios hold in device memory, without a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simsys.build.training import TrainingJob
from simsys.check import check_file
from simsys.check.levers import advice, cheapest_lever, memory_problem
from simsys.config.experiment import SimulationConfig
from simsys.config.scenarios import read_scenarios
from simsys.errors import InfeasibleConfigError, InfeasibleError
from simsys.report.listing import table
from simsys.simulation import build_job
from simsys.units import Dimension, pretty


@dataclass(frozen=True)
class MemoryAnswer:
    """Memory of one scenario.

    Args:
        name: The scenario.
        gpu: The GPU.
        capacity_bytes: Memory of a GPU.
        stages: Bytes by component, for each pipeline stage (one in serving and without a pipeline).
        problem: Why it does not fit; empty if it does.
        advice: What would make it fit.
    """

    name: str
    gpu: str
    capacity_bytes: float
    stages: Sequence[Mapping[str, float]]
    problem: str = ""
    advice: str = ""

    @property
    def fullest(self) -> int:
        """The stage that needs most."""
        totals = [sum(stage.values()) for stage in self.stages]
        return totals.index(max(totals))

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "name": self.name,
            "gpu": self.gpu,
            "capacity_bytes": self.capacity_bytes,
            "fits": not self.problem,
            "stages": [dict(stage) for stage in self.stages],
            "problem": self.problem,
            "advice": self.advice,
        }

    def text(self) -> str:
        """The answer first, then the fullest stage by component."""
        parts = self.stages[self.fullest]
        total = sum(parts.values())
        fit = "does not fit" if self.problem else "fits"
        where = f", stage {self.fullest} of {len(self.stages)}" if len(self.stages) > 1 else ""
        head = f"{self.name}: {fit}, {_size(total)} of {_size(self.capacity_bytes)} per {self.gpu}{where}"
        rows = [{"component": name.replace("_", " "), "size": _size(size), "share": f"{size / total:.0%}"}
                for name, size in parts.items() if size]  # fmt: skip
        lines = [head, "", *(f"  {line}" for line in table(rows).splitlines())]
        if len(self.stages) > 1:
            sizes = ", ".join(_size(sum(stage.values())) for stage in self.stages[:8])
            lines += ["", f"  by stage: {sizes}{' …' if len(self.stages) > 8 else ''}"]
        if self.problem:
            lines += ["", f"  {self.advice}"]
        return "\n".join(lines)


def memory_answers(path: Path, assignments: Sequence[str], names: Sequence[str]) -> list[MemoryAnswer]:
    """The memory of the scenarios of a file; what does not fit is an answer too.

    Raises:
        ConfigError: With every problem other than memory.
    """
    try:
        configs = check_file(path, assignments, names)
    except InfeasibleConfigError:
        configs = read_scenarios(path, assignments, names)
    return [memory_answer(config) for config in configs]


def memory_answer(config: SimulationConfig) -> MemoryAnswer:
    """The memory of one scenario."""
    job = build_job(config)
    if isinstance(job, TrainingJob):
        stages: Sequence[Mapping[str, float]] = job.memory_by_stage
    else:
        try:
            stages = [job.memory_bytes]
        except InfeasibleError:
            stages = [job.fixed_bytes]
    problem = memory_problem(job)
    spec = job.cluster.spec
    help_ = advice(job, cheapest_lever(job)) if problem else ""
    return MemoryAnswer(config.name, spec.name, spec.memory_bytes, stages, problem, help_)


def _size(nbytes: float) -> str:
    return pretty(nbytes, Dimension.BYTES)
