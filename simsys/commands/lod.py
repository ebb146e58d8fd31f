"""`simsys lod`: comparison of the two levels of detail."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from simsys.commands.options import (
    JSON,
    NO_FILES,
    OUT,
    REPORT,
    SCENARIO,
    SET,
    answer_json,
    common,
    experiment,
    write_report,
)
from simsys.contents.printed import SCHEMA_VERSION
from simsys.interrupts import INTERRUPTED
from simsys.report.console import answer, say

NAME = "level_of_detail"
"""Name of the output files."""


@click.command()
@experiment
@SCENARIO
@SET
@click.option("--attribution", is_flag=True, help="Also measure each abstraction separately.")
@click.option("--profile", is_flag=True, help="Also profile the CPU time by package.")
@click.option("--yes", is_flag=True, help="Run high even where it exceeds the limit.")
@click.option("--part", is_flag=True, help="Compare only the part that high can simulate within the limit.")
@click.option(
    "--limit",
    "limit_s",
    type=click.FloatRange(1.0),
    default=60.0,
    show_default=True,
    help="Limit for high, in seconds.",
)
@click.option("--repeats", type=click.IntRange(1, 100), help="Number of measurements of each level; default: a few.")
@OUT
@NO_FILES
@REPORT
@JSON
@common
def lod(
    file: Path,
    names: Sequence[str],
    assignments: Sequence[str],
    attribution: bool,
    profile: bool,
    yes: bool,
    part: bool,
    limit_s: float,
    repeats: int | None,
    out: Path,
    no_files: bool,
    report: Path | None,
    as_json: bool,
) -> int:
    """Simulate the scenarios in FILE at both levels of detail, and compare cost and results."""
    from simsys.contents.printed import printed
    from simsys.level_study.compare import Settings
    from simsys.level_study.study import study
    from simsys.report.level_study import comparison_text
    from simsys.report.outcome import plan_scenarios

    plans = plan_scenarios(file, assignments, names)
    for plan in plans:
        if plan.shortage is not None:
            raise plan.shortage
    settings = Settings(limit_s=limit_s, anyway=yes, part=part, repeats=repeats)
    watched = sys.stderr is not None and sys.stderr.isatty()
    known = [plan.name for plan in plans]
    data = study(
        [plan.config for plan in plans],
        settings,
        attribution=known if attribution else (),
        profile=known if profile else (),
        told=say if watched else lambda _: None,
    )
    refused = data["refused"]
    files = [] if no_files or not data["scenarios"] else _write(data, out)
    if data["scenarios"]:
        files += write_report(printed("lod", data), report)
    if as_json:
        answer_json({**data, "files": [str(path) for path in files]})
    elif data["scenarios"]:
        answer("\n".join([comparison_text(data), *(["", "files"] if files else []), *(f"  {path}" for path in files)]))
    for each in refused:
        say(f"error: {file}: {each['name']}: {each['error']}")
    if data["interrupted"]:
        say("interrupted")
        return INTERRUPTED
    return max((each["exit_code"] for each in refused), default=0)


def _write(data: dict[str, object], out: Path) -> list[Path]:
    """Write the comparison as JSON and as a picture."""
    from simsys.contents.printed import printed
    from simsys.plots.drawing import write_figure
    from simsys.plots.picture import draw
    from simsys.report.export import json_text
    from simsys.report.files import write_files

    text = json_text({"schema_version": SCHEMA_VERSION, **data})
    files = write_files(out, {f"{NAME}.json": lambda file: file.write(text)})
    return [*files, write_figure(draw(printed("lod", data), NAME), out / f"{NAME}.png")]
