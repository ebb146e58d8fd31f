"""Run the scenarios of a file and write their files; outcomes as text and data."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from simsys.build.job import Built
from simsys.build.rules.findings import Findings, with_aliases
from simsys.build.rules.model import source_path
from simsys.check import check_file
from simsys.config.experiment import SimulationConfig
from simsys.config.loader import read_sources
from simsys.config.places import key_path
from simsys.config.scenarios import read_scenarios
from simsys.contents.run import content_of
from simsys.errors import (
    ConfigError,
    InfeasibleConfigError,
    InfeasibleError,
    OutputError,
    SettingError,
    SimsysError,
    UsageError,
    causes,
)
from simsys.metrics.result import RunResult
from simsys.plots.observed import observed
from simsys.plots.picture import write_pictures
from simsys.probes import Probe
from simsys.report.export import NO_TABLES, Tables, earlier_results, write_results
from simsys.report.progress import ProgressLine
from simsys.report.provenance import write_provenance
from simsys.report.summary import headline, summary_text, warning_lines
from simsys.report.text import wrap
from simsys.simulation import simulate
from simsys.traces.record import Record
from simsys.user_modules import text_with_place


@dataclass(frozen=True)
class ScenarioOutcome:
    """The outcome of one scenario.

    Args:
        name: The scenario.
        result: Its result; None if it does not fit.
        error: The reason for not fitting or not writing.
        files: The files written.
        tables: Tables in addition to those of the result.
        kept: The folder to which the results of another configuration with this name were moved; None if there were
            none.
        left_out: What the trace does not show, as sentences.
        missing: Why there are no further pictures; empty if there are all.
    """

    name: str
    result: RunResult | None = None
    error: SimsysError | None = None
    files: Sequence[Path] = ()
    tables: Tables = field(default_factory=dict)
    kept: Path | None = None
    left_out: Sequence[str] = ()
    missing: str = ""

    @property
    def exit_code(self) -> int:
        """Exit code of the command line."""
        return self.error.exit_code if self.error is not None else 0

    @property
    def reason(self) -> str:
        """Why there is no result, with the place of the setting that decides."""
        reason = self.error.in_one_line if isinstance(self.error, InfeasibleConfigError) else str(self.error)
        return reason if "does not fit" in reason else f"does not fit: {reason}"

    def text(self, *, brief: bool = False) -> str:
        """The answer for people; if `brief`, its headline and warnings alone."""
        if self.result is None:
            return f"{self.name}: {self.reason}"
        if brief:
            return "\n".join([headline(self.result), *warning_lines(self.result)])
        files = ["", "files", *(f"  {file}" for file in self.files)] if self.files else []
        left_out = [line for text in self.left_out for line in wrap(text, "  ", "    ")]
        shown = ["", "the trace leaves out", *left_out] if left_out else []
        shown += ["", "pictures", *wrap(self.missing, "  ", "    ")] if self.missing else []
        return "\n".join([summary_text(self.result), *files, *shown])

    def as_dict(self) -> dict[str, Any]:
        """The answer for programs: the result with the cost of computing it, or the reason why there is none."""
        if self.result is None:
            return {"name": self.name, "error": self.reason, "exit_code": self.exit_code}
        result = self.result
        performance = {
            "wall_s": result.wall_s,
            "cpu_s": result.cpu_s,
            "events_per_s": result.events / result.wall_s if result.wall_s else None,
        }
        kept = {} if self.kept is None else {"earlier_results": str(self.kept)}
        left_out: dict[str, Any] = {"trace_leaves_out": list(self.left_out)} if self.left_out else {}
        left_out |= {"missing_pictures": self.missing} if self.missing else {}
        return {**result.as_dict(), "performance": performance, **kept, **left_out}


@dataclass(frozen=True)
class ScenarioPlan:
    """A checked scenario to run, or with `shortage` one that does not fit.

    Args:
        config: The scenario.
        built: The scenario as the check has built it; None if it does not fit.
        shortage: Why it does not fit.
        file: The experiment file; None if the scenario was made in Python.
        assignments: Settings from the command line.
    """

    config: SimulationConfig
    built: Built | None = None
    shortage: InfeasibleConfigError | None = None
    file: Path | None = None
    assignments: Sequence[str] = ()

    @property
    def name(self) -> str:
        """The scenario's name."""
        return self.config.name

    @property
    def kinds(self) -> list[str]:
        """The kind of its result, and those of its jobs."""
        config = self.config
        return [config.kind, *(config.job(job).kind for job in config.jobs or ())]


def plan_scenarios(
    path: Path, assignments: Sequence[str], names: Sequence[str], limit_s: float = math.inf
) -> list[ScenarioPlan]:
    """Check a file and return the scenarios to run.

    Args:
        path: The experiment file.
        assignments: Settings from the command line.
        names: The scenarios to run; all if empty.
        limit_s: Limit of the estimated processor time of a scenario.

    Raises:
        ConfigError: With every problem of the scenarios that are to be run.
        UsageError: If there is no scenario of this name, or a name is not unique.
    """
    try:
        plans = [ScenarioPlan(built.config, built) for built in check_file(path, assignments, names, limit_s=limit_s)]
    except InfeasibleConfigError:
        found = read_scenarios(path, assignments, names)
        plans = [_plan(config, path, assignments, limit_s) for config in found]
    plans = [replace(plan, file=path, assignments=assignments) for plan in plans]
    twice = [name for name, count in Counter(plan.name for plan in plans).items() if count > 1]
    if twice:
        raise UsageError(f"{path}: several scenarios are called {', '.join(twice)}, so their files would be the same")
    return plans


def _plan(config: SimulationConfig, path: Path, assignments: Sequence[str], limit_s: float) -> ScenarioPlan:
    """What is to be done with a scenario of a file in which some do not fit."""
    try:
        built = check_file(path, assignments, [config.name], limit_s=limit_s)
    except InfeasibleConfigError as error:
        return ScenarioPlan(config, shortage=error)
    return ScenarioPlan(config, built[0])


def run_scenario(
    plan: ScenarioPlan,
    folder: Path | None,
    recorders: Sequence[Callable[[SimulationConfig], Record]] = (),
    *,
    plots: bool = False,
) -> ScenarioOutcome:
    """Simulate a scenario and write its files.

    Not fitting, and files that cannot be written, are outcomes; other errors are raised.

    Args:
        plan: The scenario.
        folder: Parent of the folder of its files; None writes nothing.
        recorders: Make what else is recorded and written, such as `ScenarioTrace`.
        plots: Also draw pictures, and write the data that they need.

    Raises:
        ConfigError: If a setting turns out wrong in the simulation.
        SimsysError: If it cannot be carried out.
    """
    records = [make(plan.config) for make in recorders]
    try:
        result = _simulate(plan, [each.probe for each in records])
    except InfeasibleConfigError as error:
        return ScenarioOutcome(plan.name, error=error)
    except InfeasibleError as error:
        return ScenarioOutcome(plan.name, error=_with_place(error, plan))
    except ConfigError:
        raise
    except UsageError as error:
        raise _with_place(error, plan) from error
    if folder is None:
        return ScenarioOutcome(plan.name, result)
    try:
        kept = earlier_results(plan.config, folder)
        tables, missing = observed(plan.config, result) if plots else (NO_TABLES, "")
        files = write_results(plan.config, result, folder, tables, records)
        files += write_provenance(result, folder / plan.name)
        if plots:
            run = content_of(plan.config, result, tables)
            files += write_pictures(run, folder / plan.name, f"{plan.name}_")
        left_out = [text for each in records for text in each.left_out()]
        return ScenarioOutcome(
            plan.name, result, files=files, tables=tables, kept=kept, left_out=left_out, missing=missing
        )
    except OutputError as error:
        return ScenarioOutcome(plan.name, result, error)


def _with_place(error: SimsysError, plan: ScenarioPlan) -> SimsysError:
    """An error of a simulation with the place of the setting in the file, or the place of the scenario."""
    if plan.file is None:
        return error
    try:
        source = read_sources(plan.file, plan.assignments, [plan.name])[0]
    except SimsysError:  # the file has changed since
        return error
    found = Findings(with_aliases(source))
    if isinstance(error, InfeasibleError):
        place = next((cause.path for cause in causes(error) if isinstance(cause, InfeasibleError) and cause.path), "")
        found.does_not_fit(key_path(place) if place else source_path(plan.config.model), str(error))
        return InfeasibleConfigError(found.infeasible)
    found.error(key_path(error.path) if isinstance(error, SettingError) else (), text_with_place(error))
    return ConfigError(found.errors)


def _simulate(plan: ScenarioPlan, probes: Sequence[Probe]) -> RunResult:
    if plan.shortage is not None:
        raise plan.shortage
    with ExitStack() as stack:
        watched = sys.stderr is not None and sys.stderr.isatty()
        progress = [stack.enter_context(ProgressLine(plan.config))] if watched else []
        return simulate(plan.config, [*progress, *probes], built=plan.built)
