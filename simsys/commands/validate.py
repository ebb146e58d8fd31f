"""`simsys validate`: how wrong are predictions of measured runs?"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from simsys.commands.options import JSON, answer_json, common, no_modules, with_modules
from simsys.report.console import answer, say

if TYPE_CHECKING:
    from simsys.fidelity.case import Case
    from simsys.fidelity.tables.reading import Reading


@click.command()
@click.argument("files", type=click.Path(path_type=Path), nargs=-1)
@click.option("--out", type=click.Path(path_type=Path), help="Write a row for each measured value, as CSV.")
@click.option(
    "--on", type=click.Path(path_type=Path), callback=with_modules, help="The experiment that FILES were measured on."
)
@no_modules
@click.option("--scenario", metavar="NAME", help="Which of its scenarios.")
@click.option(
    "--strict", is_flag=True, help="Refuse files with rows that cannot be read, instead of leaving these out."
)
@click.option(
    "--held-out",
    metavar="ROWS",
    type=click.IntRange(1),
    help="Predict only what 'simsys calibrate --rows ROWS' of FILES does not fit to.",
)
@click.option(
    "--expected-errors",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the errors by engine, regime and load, which runs name, as YAML.",
)
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes that simulate.")
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
    jobs: int,
    as_json: bool,
) -> None:
    """Predict the measured runs of FILES and say how wrong that is; without FILES, published figures.

    Known are tables of training, serving and nccl-tests results, by their headers; results of 'vllm bench serve' (with
    --save-detailed request by request); and what nccl-tests print, as text or JSON. The last two can be compared with
    an experiment of yours: --on FILE. A run is simulated as 'simsys run' does at medium detail; what was measured
    serves for comparison only. Rows that cannot be read are listed and left out, unless --strict; those that cannot be
    predicted are counted with the reason.
    """
    from simsys.fidelity.predict import Simulations
    from simsys.report.counting import counting
    from simsys.report.validation import Validation

    readings = _readings(files, on, scenario, strict=strict)
    cases = _cases(readings, held_out)
    with counting("runs") as progress, Simulations(jobs, progress) as simulations:
        predictions = simulations.predict(cases)
        read = [simulations.profiles(case.run) if case.run is not None else frozenset() for case in cases]
    found = Validation(
        predictions,
        problems=[problem for each in readings for problem in each.problems],
        warnings=[text for each in readings for text in each.warnings],
    )
    written = found.write(out) if out is not None else []
    if expected_errors is not None:
        from simsys.fidelity.expected import write_errors_by_regime

        heading = _heading([reading.file for reading in readings], held_out)
        written += write_errors_by_regime(expected_errors, predictions, read, heading=heading)
    if as_json:
        answer_json({"validation": found.as_dict(), "files": [str(path) for path in written]})
    else:
        answer(found.text())
        for path in written:
            say(f"wrote {path}")


def _readings(files: Sequence[Path], on: Path | None, scenario: str | None, *, strict: bool) -> list[Reading]:
    """The measurements of some files, or of those that come with simsys."""
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


def _cases(readings: Sequence[Reading], held_out: int | None) -> Sequence[Case]:
    """All measured values, or those that a fit does not look at."""
    cases = [case for each in readings for case in each.cases]
    if held_out is None:
        return cases
    from simsys.fidelity.calibrate import not_looked_at

    return not_looked_at(cases, held_out)


def _heading(files: Sequence[str], held_out: int | None) -> str:
    """What a file of errors says of the rows that they are of."""
    options = [] if held_out is None else ["--held-out", str(held_out)]
    command = shlex.join(["simsys", "validate", *(Path(file).name for file in files), *options])
    made = f"by `{command} --expected-errors FILE`, {datetime.now(UTC).date()}."
    if held_out is None:
        return f"Errors on all rows, whether the profiles were fitted to them or not,\n{made}"
    return (
        f"Errors on the rows that the fit of the profiles did not look at,\n{made}\n"
        "The fit looked at other rows of the same sources; on sources that a fit has not seen, errors are larger\n"
        "(expected_errors.yaml)."
    )
