"""`simsys validate`: errors of predictions of measured runs."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from simsys.commands import completed
from simsys.commands.options import JSON, REPORT, answer_json, common, no_modules, with_modules, write_report
from simsys.report.console import answer, say

if TYPE_CHECKING:
    from simsys.fidelity.case import Case, Prediction
    from simsys.fidelity.predict import Simulations
    from simsys.fidelity.tables.reading import Reading
    from simsys.report.kineto import StepComparisons
    from simsys.report.validation import Validation


@click.command()
@click.argument("files", type=click.Path(path_type=Path), nargs=-1)
@click.option("--out", type=click.Path(path_type=Path), help="Write one CSV row per measured value.")
@click.option(
    "--on",
    type=click.Path(path_type=Path),
    callback=with_modules,
    help="Scenario that describes the hardware and workload of the measurements.",
)
@no_modules
@click.option(
    "--scenario",
    metavar="NAME",
    shell_complete=completed.scenarios,
    help="Name of that scenario, if its file has several.",
)
@click.option("--strict", is_flag=True, help="Refuse files with unreadable rows instead of skipping the rows.")
@click.option(
    "--held-out",
    metavar="ROWS",
    type=click.IntRange(1),
    help="Predict only the rows that 'simsys calibrate --rows ROWS FILES' does not fit.",
)
@click.option(
    "--expected-errors",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the expected errors by engine, regime and load, as YAML.",
)
@click.option(
    "--expected-ratios",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the expected errors of ratios of two runs by what differs, as YAML.",
)
@click.option(
    "--expected-losses",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the expected loss of choices among measured runs, as YAML.",
)
@click.option(
    "--choices-page",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Replace the section on choices of a page written by 'simsys calibrate --page'.",
)
@click.option(
    "--notes", type=click.Path(path_type=Path), help="YAML with the known causes of errors, by group, for that page."
)
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Number of simulating processes.")
@REPORT
@JSON
@common
def validate(
    files: Sequence[Path],
    out: Path | None,
    on: Path | None,
    scenario: str | None,
    strict: bool,
    held_out: int | None,
    expected_errors: Path | None,
    expected_ratios: Path | None,
    expected_losses: Path | None,
    choices_page: Path | None,
    notes: Path | None,
    jobs: int,
    report: Path | None,
    as_json: bool,
) -> None:
    """Predict the measured runs in FILES and report the errors; default: published figures.

    FILES may be tables of training, serving and nccl-tests results (recognised by their headers), results of 'vllm
    bench serve' (per request with --save-detailed), the output of nccl-tests as text or JSON, or traces of PyTorch's
    profiler, whose steps are compared by cause. All but tables can be compared with your own experiment: --on FILE.
    Runs are simulated at medium detail, as by 'simsys run'. Unreadable rows are listed and skipped (or refused with
    --strict). Rows that cannot be predicted are counted by reason.
    """
    if _are_kineto(files):
        return _compare_traces(click.get_current_context(), files, on, scenario, out, as_json=as_json)
    from simsys.fidelity.predict import Simulations
    from simsys.report.counted_progress import CountedProgress

    readings = _readings(files, on, scenario, strict=strict)
    with CountedProgress("validate", "runs") as progress, Simulations(jobs, progress) as simulations:
        cases = _cases(readings, held_out, simulations)
        predictions = simulations.predict(cases)
        read = [simulations.profiles(case.run) if case.run else frozenset() for case in cases]
    found = _validation(readings, predictions)
    written = [] if out is None else found.write(out)
    heading = partial(_heading, [each.file for each in readings], held_out)
    if expected_errors is not None:
        from simsys.fidelity.expected import write_errors_by_regime

        written += write_errors_by_regime(expected_errors, predictions, read, heading=heading("--expected-errors"))
    if expected_ratios is not None:
        from simsys.fidelity.ratios import write_errors_of_ratios

        written += write_errors_of_ratios(expected_ratios, predictions, heading=heading("--expected-ratios"))
    written += _write_choices(predictions, heading, expected_losses, choices_page, notes)
    _print(found, written, report, as_json=as_json)


def _validation(readings: Sequence[Reading], predictions: Sequence[Prediction]) -> Validation:
    from simsys.report.validation import Validation

    return Validation(
        predictions,
        problems=[problem for each in readings for problem in each.problems],
        warnings=[text for each in readings for text in each.warnings],
    )


def _are_kineto(files: Sequence[Path]) -> bool:
    """Whether the files are traces of PyTorch's profiler; raises UsageError if only some are."""
    from simsys.errors import UsageError
    from simsys.traces.kineto_file import is_kineto

    traces = [file for file in files if is_kineto(file)]
    if traces and len(traces) < len(files):
        raise UsageError(f"{traces[0]} is a trace of a profiler, the others are not; compare it alone")
    return bool(traces)


def _compare_traces(
    ctx: click.Context,
    files: Sequence[Path],
    on: Path | None,
    scenario: str | None,
    out: Path | None,
    *,
    as_json: bool,
) -> None:
    """Compare the steps of traces with those of a scenario."""
    from click.core import ParameterSource

    from simsys.config.experiment import SimulationConfig
    from simsys.errors import UsageError
    from simsys.report.kineto import StepComparisons
    from simsys.traces.kineto_file import read_kineto
    from simsys.traces.prediction import compare_with_prediction

    if on is None:
        raise UsageError(f"{files[0]}: a trace does not say what was trained on what; name an experiment with --on")
    for name in sorted(set(ctx.params) - {"files", "on", "scenario", "out", "as_json"}):
        if ctx.get_parameter_source(name) not in (ParameterSource.DEFAULT, None):
            raise UsageError(f"--{name.replace('_', '-')} is not for traces of a profiler")
    config = SimulationConfig.from_yaml(on, scenario)
    found = StepComparisons(config.name, compare_with_prediction([read_kineto(file) for file in files], config))
    _print(found, found.write(out) if out is not None else [], as_json=as_json, key="steps")


def _write_choices(
    predictions: Sequence[Prediction],
    heading: Callable[[str], str],
    losses: Path | None,
    page: Path | None,
    notes: Path | None,
) -> list[Path]:
    """Write the expected losses and the section of a page, if they are wanted."""
    written: list[Path] = []
    if losses is not None:
        from simsys.fidelity.expected import write_expected_losses

        written += write_expected_losses(losses, predictions, heading=heading("--expected-losses"))
    if page is not None:
        from simsys.report.choices_section import replace_choices
        from simsys.report.fidelity_page import Notes

        known = Notes.read(notes) if notes is not None else Notes()
        written += replace_choices(page, predictions, made=heading("--choices-page"), causes=known.choices)
    return written


def _print(
    found: Validation | StepComparisons,
    written: Sequence[Path],
    report: Path | None = None,
    *,
    as_json: bool,
    key: str = "validation",
) -> None:
    """Write the report, if it is wanted, and print the answer."""
    if report is not None:
        from simsys.contents.printed import printed

        written = [*written, *write_report(printed("validate", {key: found.as_dict()}), report)]
    if as_json:
        answer_json({key: found.as_dict(), "files": [str(path) for path in written]})
    else:
        answer(found.text())
        for path in written:
            say(f"wrote {path}")


def _readings(files: Sequence[Path], on: Path | None, scenario: str | None, *, strict: bool) -> list[Reading]:
    """The measurements in these files, or the ones shipped with simsys."""
    from simsys.build.relocation import relocated
    from simsys.config.experiment import SimulationConfig
    from simsys.fidelity.tables.readers import read_measurements, shipped_tables
    from simsys.fidelity.tables.reading import check

    config = SimulationConfig.from_yaml(on, scenario) if on is not None else None
    where = relocated(config, Path(), with_defaults=False) if config is not None else None
    readings = [read_measurements(file, where) for file in files or shipped_tables()]
    if strict:
        check(readings)
    return readings


def _cases(readings: Sequence[Reading], held_out: int | None, simulations: Simulations) -> Sequence[Case]:
    """All measured values, or the ones held out of a fit."""
    cases = [case for each in readings for case in each.cases]
    if held_out is None:
        return cases
    from simsys.fidelity.sample import not_looked_at

    return not_looked_at(cases, held_out, simulations)


def _heading(files: Sequence[str], held_out: int | None, option: str) -> str:
    """The header comment of a file of expected errors: which rows they are from."""
    options = [] if held_out is None else ["--held-out", str(held_out)]
    command = shlex.join(["simsys", "validate", *(Path(file).name for file in files), *options])
    made = f"by `{command} {option} FILE`, {datetime.now(UTC).date()}."
    if held_out is None:
        return f"Errors on all rows, whether the profiles were fitted to them or not,\n{made}"
    return (
        f"Errors on rows held out of the fit of the profiles,\n{made}\n"
        "The fit used other rows of the same sources; errors on unseen sources are larger\n"
        "(expected_errors.yaml)."
    )
