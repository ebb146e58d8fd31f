"""Device memory of scenarios, settings that save some, and the choice of data parallelism."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from simsys.build.job import Job
from simsys.build.resolved_serving import ResolvedServing, defaults_dict, defaults_text
from simsys.build.training import TrainingJob
from simsys.check import check_file
from simsys.check.advice import advice, memory_fixes, training_fixes
from simsys.check.effects import SAME_TIME, RemedyEffect, Stopwatch, remedy_effects
from simsys.check.remedies import memory_problem, remedy_text
from simsys.check.scenario import trials_of
from simsys.check.strategies import StrategyFigures, compare_strategies, strategy_advice
from simsys.check.trials import Trials
from simsys.errors import InfeasibleError
from simsys.report.listing import WIDTH, table
from simsys.report.text import wrap
from simsys.sums import ordered_sum
from simsys.units import pretty_memory


@dataclass(frozen=True)
class MemoryAnswer:
    """Memory of one scenario.

    Args:
        name: The scenario.
        gpu: The GPU.
        capacity_bytes: Memory of a GPU.
        stages: Bytes by component, for each pipeline stage (one in serving and without a pipeline).
        problem: The reason for not fitting; empty if it fits.
        advice: Settings that make it fit.
        remedies: For training, settings that save memory, the best first.
        strategies: For data-parallel training, the job with each strategy.
        host_bytes: For training, model states per GPU in host memory.
        warnings: Warnings for people.
        settings: For serving, all settings with the defaults of the engine.
    """

    name: str
    gpu: str
    capacity_bytes: float
    stages: Sequence[Mapping[str, float]]
    problem: str = ""
    advice: str = ""
    remedies: Sequence[RemedyEffect] = ()
    strategies: Sequence[StrategyFigures] = ()
    host_bytes: float = 0.0
    warnings: Sequence[str] = ()
    settings: ResolvedServing | None = None

    @property
    def fullest(self) -> int:
        """The stage with the highest need."""
        totals = [ordered_sum(stage.values()) for stage in self.stages]
        return totals.index(max(totals))

    @property
    def strategy_advice(self) -> str:
        """The recommended data parallelism; empty if there is no choice."""
        helps = next((remedy_text(effect.remedy) for effect in self.remedies if effect.fits), "")
        return strategy_advice(self.strategies, self.capacity_bytes, helps) if self.strategies else ""

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "name": self.name,
            "gpu": self.gpu,
            "capacity_bytes": self.capacity_bytes,
            "fits": not self.problem,
            "stages": [dict(stage) for stage in self.stages],
            "host_bytes": self.host_bytes,
            "problem": self.problem,
            "advice": self.advice,
            "remedies": [effect.as_dict() for effect in self.remedies],
            "strategies": [figures.as_dict() for figures in self.strategies],
            "strategy_advice": self.strategy_advice,
            "warnings": list(self.warnings),
            **({"defaults": defaults_dict(self.settings)} if self.settings is not None and self.settings.used else {}),
        }

    def text(self) -> str:
        """The answer, then the fullest stage by component, then advice."""
        lines = [self._headline(), *(line for text in self.warnings for line in wrap(text, "  warning: ", "    ")), ""]
        lines += [f"  {line}" for line in self._components().splitlines()]
        if len(self.stages) > 1:
            sizes = ", ".join(pretty_memory(ordered_sum(stage.values())) for stage in self.stages[:8])
            lines += ["", f"  by stage: {sizes}{' …' if len(self.stages) > 8 else ''}"]
        if self.host_bytes:
            lines += ["", f"  in host memory, per GPU: {pretty_memory(self.host_bytes)}"]
        if self.settings is not None:
            lines += [line for text in defaults_text(self.settings) for line in ("", *_wrapped(text))]
        return "\n".join([*lines, *self._remedies()])

    def _headline(self) -> str:
        fit = "does not fit" if self.problem else "fits"
        where = f", stage {self.fullest} of {len(self.stages)}" if len(self.stages) > 1 else ""
        total = pretty_memory(ordered_sum(self.stages[self.fullest].values()))
        return f"{self.name}: {fit}, {total} of {pretty_memory(self.capacity_bytes)} per {self.gpu}{where}"

    def _components(self) -> str:
        """The fullest stage by component, as a table."""
        parts = self.stages[self.fullest]
        total = ordered_sum(parts.values())
        rows = [
            {"component": name.replace("_", " "), "size": pretty_memory(size), "share": f"{size / total:.0%}"}
            for name, size in parts.items()
            if size
        ]
        return table(rows)

    def _remedies(self) -> list[str]:
        lines: list[str] = []
        if self.problem:
            lines += ["", *_wrapped(self.advice)]
        if self.remedies:
            lines += ["", *(f"  {line}" for line in table([_row(effect) for effect in self.remedies]).splitlines())]
        if self.strategies:
            lines += ["", *_wrapped(self.strategy_advice)]
        return lines


def memory_answers(
    path: Path, assignments: Sequence[str], names: Sequence[str], *, remedies: bool | None = None
) -> list[MemoryAnswer]:
    """The memory of the scenarios of a file, including those that do not fit.

    Args:
        path: The experiment file.
        assignments: Settings from the command line.
        names: Which scenarios; all if empty.
        remedies: As for `memory_answer`.

    Raises:
        ConfigError: With every problem other than memory.
    """
    answers = []
    for built in check_file(path, assignments, names, memory=False):
        if built.config.jobs is None:
            answers.append(memory_answer(built.jobs[0], remedies=remedies))
        else:
            for one, job in zip(built.config.jobs, built.jobs, strict=True):
                answers.append(memory_answer(job, remedies=False, trials=trials_of(job.config, one)))
    return answers


def memory_answer(job: Job, *, remedies: bool | None = None, trials: Trials | None = None) -> MemoryAnswer:
    """The memory of one scenario, or of one of its jobs.

    Args:
        job: The scenario, resolved.
        remedies: For training, whether to list settings that save memory; by default if it does not fit. True also
            measures the cost of settings that do not suffice; False also skips the comparison of strategies.
        trials: Checks the scenario with other settings; by default as that of a single job.
    """
    trials = trials or trials_of(job.config)
    problem = memory_problem(job)
    if isinstance(job, TrainingJob):
        stages: Sequence[Mapping[str, float]] = job.memory_by_stage
    else:
        try:
            stages = job.memory_by_stage
        except InfeasibleError:
            stages = job.fixed_by_stage
    spec = job.cluster.smallest
    warnings = list(map(str, job.warnings()))
    answer = MemoryAnswer(job.config.name, spec.name, spec.memory_bytes, stages, problem, warnings=warnings)
    if isinstance(job, TrainingJob):
        answer = replace(answer, host_bytes=job.host_bytes)
    else:
        answer = replace(answer, settings=job.settings)
    if isinstance(job, TrainingJob) and remedies is not False:
        return _compared(answer, job, trials, remedies=bool(remedies))
    return replace(answer, advice=advice(memory_fixes(job, trials))) if problem else answer


def _compared(answer: MemoryAnswer, job: TrainingJob, trials: Trials, *, remedies: bool) -> MemoryAnswer:
    """The answer with simulated costs of strategies and, if requested or needed, of settings that save memory."""
    watch = Stopwatch(job)
    strategies = compare_strategies(job, watch, every=remedies)
    effects = remedy_effects(job, watch, every=remedies) if remedies or answer.problem else ()
    helps = advice(trials.passing(training_fixes(effects), 1)) if answer.problem else ""
    return replace(answer, remedies=effects, strategies=strategies, advice=helps)


def _row(effect: RemedyEffect) -> dict[str, str]:
    """One line of the table of settings that save memory."""
    cost = effect.time_cost
    time = "-" if cost is None else "0.0 %" if abs(cost) < SAME_TIME else f"{cost * 100:+.1f} %"
    remark = " (changes the training)" if effect.changes_training else ""
    return {
        "fits": "yes" if effect.fits else "no",
        "saves": pretty_memory(effect.saved_bytes),
        "time": time,
        "remedy": f"{remedy_text(effect.remedy)}{remark}",
    }


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ")
