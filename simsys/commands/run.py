"""`simsys run`: simulate scenarios, print the answers, write the results."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simsys import interrupts
from simsys.commands.options import (
    JSON,
    LIMIT_S,
    NO_FILES,
    OUT,
    REPORT,
    SET,
    answer_json,
    common,
    limited,
    repeated,
    write_report,
)
from simsys.commands.scale import scale
from simsys.commands.shipped import DEFAULT, experiment_or_preset
from simsys.errors import UsageError
from simsys.interrupts import INTERRUPTED
from simsys.report.console import answer, say

if TYPE_CHECKING:
    from simsys.config.experiment import SimulationConfig
    from simsys.report.outcome import ScenarioOutcome, ScenarioPlan
    from simsys.report.threshold import Threshold
    from simsys.traces.record import Record

THRESHOLD_FAILED = 1


def _thresholds(_: click.Context, __: click.Parameter, texts: Sequence[str]) -> list[Threshold]:
    from simsys.report.threshold import Threshold

    return [Threshold.parse(text) for text in texts]


class RunCommand(click.Command):
    """The command, or with ``--scaling`` or a scaling example, `simsys scale` with the same arguments."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the arguments, by the command that they are for."""
        if "--scaling" not in args and not _is_scaling_example(args):
            return super().make_context(info_name, args, parent, **extra)
        if parent is not None and "--example" not in args:
            parent.meta[DEFAULT] = "medium"
        return scale.make_context("scale", [each for each in args if each != "--scaling"], parent, **extra)


def _is_scaling_example(args: Sequence[str]) -> bool:
    if not any(each.startswith("--example") for each in args):
        return False
    from simsys.report.examples import EXAMPLES

    words = " ".join(args).replace("--example=", "--example ").split()
    return any(f"--example {name}" in " ".join(words) for name, example in EXAMPLES.items() if example.scaling)


@click.command(cls=RunCommand)
@experiment_or_preset
@click.option(
    "--scaling",
    is_flag=True,
    expose_value=False,
    help="The same as 'simsys scale', with its options, such as --nodes 1 2 4 8; by default of the preset medium.",
)
@click.option("--lod", type=click.Choice(["high", "medium"]), help="Level of detail, instead of the one in the file.")
@SET
@OUT
@NO_FILES
@click.option("--trace", is_flag=True, help="Write a trace for Perfetto, in the format of PyTorch's profiler.")
@click.option("--events", is_flag=True, help="Write the event history, as JSON lines.")
@click.option("--plots", is_flag=True, help="Also draw all pictures of 'simsys plot', as PNG files.")
@REPORT
@JSON
@click.option("--quiet", is_flag=True, help="Print one line for each scenario.")
@click.option(
    "--fail-on",
    "thresholds",
    metavar="CONDITION",
    multiple=True,
    callback=_thresholds,
    help="Exit with 1 if this condition holds, such as 'p99_ttft_ms>200'; metrics: 'simsys list metrics'. Repeatable.",
)
@limited()
@common
def run(
    file: Path,
    names: Sequence[str],
    lod: str | None,
    assignments: Sequence[str],
    out: Path,
    no_files: bool,
    trace: bool,
    events: bool,
    plots: bool,
    report: Path | None,
    as_json: bool,
    quiet: bool,
    thresholds: Sequence[Threshold],
    limit_s: float,
    yes: bool,
) -> int:
    """Simulate the scenarios in FILE, print the answers and write the results."""
    from simsys.report.outcome import plan_scenarios, run_scenario
    from simsys.report.threshold import check_thresholds, failures

    extra = [option for option, on in (("--trace", trace), ("--events", events), ("--plots", plots)) if on]
    recorders = _recorders(extra, no_files=no_files)
    assignments = [*assignments, *([f"simulation.lod={lod}"] if lod else [])]
    plans = plan_scenarios(file, assignments, names, math.inf if yes else limit_s)
    check_thresholds(thresholds, [kind for plan in plans for kind in plan.kinds])
    notes = _unused_sections(file, plans)
    outcomes: list[ScenarioOutcome] = []
    interrupted = False
    try:
        with interrupts.raised():
            for plan in plans:
                outcome = run_scenario(plan, None if no_files else out, recorders, plots=plots)
                outcomes.append(outcome)
                _print(outcome, as_json=as_json, quiet=quiet, last=plan is plans[-1])
    except KeyboardInterrupt:
        interrupted = True
        files = ["--no-files"] if no_files else ["--out", str(out)]
        options = [*repeated("--set", assignments), *files, *extra, *_limit_options(limit_s, yes=yes)]
        _say_what_is_left(file, options, [done.name for done in outcomes], [plan.name for plan in plans])
    pages = [] if interrupted else _write_report(plans, outcomes, None if no_files else out, report)
    if as_json:
        paths = [*(str(path) for outcome in outcomes for path in outcome.files), *map(str, pages)]
        answer_json({"scenarios": [outcome.as_dict() for outcome in outcomes], "files": paths, "notes": notes})
    if interrupted:
        return INTERRUPTED
    failed = failures(thresholds, [outcome.result for outcome in outcomes if outcome.result])
    for text in failed:
        say(f"failed: {text}")
    return max([THRESHOLD_FAILED if failed else 0, *(outcome.exit_code for outcome in outcomes)])


def _recorders(options: Sequence[str], *, no_files: bool) -> list[Callable[[SimulationConfig], Record]]:
    """What is recorded and written beside the results, by the options for further files."""
    if options and no_files:
        raise UsageError(f"{options[0]} writes a file; leave out --no-files")
    found: list[Callable[[SimulationConfig], Record]] = []
    if "--trace" in options:
        from simsys.traces.scenario_trace import ScenarioTrace

        found.append(ScenarioTrace)
    if "--events" in options:
        from simsys.traces.event_file import EventRecord

        found.append(EventRecord)
    return found


def _write_report(
    plans: Sequence[ScenarioPlan], outcomes: Sequence[ScenarioOutcome], folder: Path | None, path: Path | None
) -> list[Path]:
    """Write the page of what was simulated, if it is wanted; return the file."""
    if path is None:
        return []
    from simsys.contents.run import content_of

    done = [(plan, outcome, outcome.result) for plan, outcome in zip(plans, outcomes, strict=True) if outcome.result]
    if not done:
        say(f"no scenario was simulated, so {path} is not written")
        return []
    runs = [content_of(plan.config, result, outcome.tables, folder) for plan, outcome, result in done]
    pages = write_report(runs, path)
    say(f"wrote {path}")
    return pages


def _unused_sections(file: Path, plans: Sequence[ScenarioPlan]) -> list[str]:
    """Say which sections are for another command, with this command; return the notes."""
    notes = []
    for section in ("sweep", "search"):
        names = [plan.name for plan in plans if getattr(plan.config, section) is not None]
        if names:
            whole = "" if len(names) == len(plans) else f"; of {', '.join(names)}"
            notes.append(f"the section '{section}' is not run here, but by 'simsys {section} {file}'{whole}")
            say(f"note: {notes[-1]}")
    return notes


def _print(outcome: ScenarioOutcome, *, as_json: bool, quiet: bool, last: bool) -> None:
    """Print an answer with a bold headline where possible, separated from the previous one by an empty line."""
    if not as_json:
        answer(outcome.text(brief=quiet) + ("" if quiet or last else "\n"), headline=True)
    if outcome.kept is not None:
        say(f"{outcome.name}: earlier results of another configuration are kept in {outcome.kept}")
    if outcome.result is not None and outcome.error is not None:
        say(f"error: {outcome.error}")


def _limit_options(limit_s: float, *, yes: bool) -> list[str]:
    """The options that set this limit of processor time, if it is not the default."""
    if yes:
        return ["--yes"]
    return ["--limit", f"{limit_s:g}"] if limit_s != LIMIT_S else []


def _say_what_is_left(file: Path, options: Sequence[str], done: Sequence[str], names: Sequence[str]) -> None:
    rest = [name for name in names if name not in done]
    command = ["simsys", "run", str(file), *repeated("--scenario", rest), *options]
    say(f"interrupted; finished: {', '.join(done) or 'none'}")
    if rest:
        say(f"to run the rest: {shlex.join(command)}")
