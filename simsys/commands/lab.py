"""`simsys lab`: real training beside the simulation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from simsys.commands import completed
from simsys.commands.options import JSON, SCENARIO, SET, answer_json, common, conditions_on, experiment
from simsys.report.console import answer, say

if TYPE_CHECKING:
    from simsys.report.threshold import Threshold

ONE = click.option(
    "--scenario", metavar="NAME", shell_complete=completed.scenarios, help="Select a scenario, of several."
)
OUT = click.option(
    "--out", type=click.Path(path_type=Path), default="results", show_default=True, help="Folder for output files."
)


@click.group()
def lab() -> None:
    """Train for real with PyTorch, and compare with the simulation (pip install 'simsys[lab]')."""


@lab.command()
@experiment
@ONE
@SET
@OUT
@click.option("--resume", is_flag=True, help="Continue from the last checkpoint of this scenario.")
@JSON
@common
def train(
    file: Path, scenario: str | None, assignments: Sequence[str], out: Path, resume: bool, as_json: bool
) -> None:
    """Train the model of a scenario in FILE on this machine, with as many processes as it has ranks.

    Metrics are written as JSON lines for each rank, checkpoints into checkpoints/. Ctrl-C and SIGTERM save a
    checkpoint and end. Exit code 1 means that the training failed: a lost rank, a loss that is no number.
    """
    from simsys.lab.report import run_dict, run_text
    from simsys.lab.train import train as run

    done = run(file, scenario, assignments, out=out, resume=resume, say=say)
    if as_json:
        answer_json({"run": run_dict(done)})
    else:
        answer(run_text(done))


def _conditions(_: click.Context, __: click.Parameter, texts: Sequence[str]) -> list[Threshold]:
    from simsys.lab.compare import FIGURES

    return conditions_on(FIGURES, texts, example="cpu_error>0.15", what="figure of a comparison")


@lab.command()
@experiment
@SCENARIO
@SET
@OUT
@JSON
@click.option(
    "--fail-on",
    "conditions",
    metavar="CONDITION",
    multiple=True,
    callback=_conditions,
    help="Exit with 1 if this holds for a scenario, such as 'cpu_error>0.15'; figures: iteration_error, cpu_error, "
    "peak_memory_error, states_error, collective_bytes_error. Repeatable.",
)
@common
def compare(
    file: Path,
    names: Sequence[str],
    assignments: Sequence[str],
    out: Path,
    as_json: bool,
    conditions: Sequence[Threshold],
) -> int:
    """Train and simulate the scenarios in FILE, and print measured and predicted figures with their errors.

    A picture with both, cause by cause, is written as lab_compare.svg, the profiles of the ranks into profile/.
    """
    from simsys.lab.compare import compare as run
    from simsys.lab.comparison_report import comparison_dict, comparison_text, summary_text, write_picture

    found = []
    for each in run(file, names, assignments, out=out, say=say):
        found.append(each)
        if not as_json:
            answer(comparison_text(each) + "\n")
    picture = write_picture(found, out / "lab_compare.svg")
    if as_json:
        answer_json({"comparisons": [comparison_dict(each) for each in found], "files": [str(picture)]})
    else:
        answer(summary_text(found))
        say(f"wrote {picture}")
    failed = False
    for each in found:
        for condition in conditions:
            value = each.figures()[condition.metric]
            if value is None or condition.holds(value):
                failed = True
                shown = "not known, as the run was disturbed" if value is None else f"{value:.4g}"
                say(f"failed: {each.name}: {condition.metric} is {shown}")
    return 1 if failed else 0


def _numbers(_: click.Context, parameter: click.Parameter, text: str) -> list[int]:
    try:
        found = [int(each) for each in text.split(",") if each.strip()]
    except ValueError:
        found = [0]
    if any(number < 1 for number in found):
        raise click.BadParameter("write numbers from 1, separated by commas, such as 4,8", param=parameter)
    return found


def _texts(_: click.Context, __: click.Parameter, text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


@lab.command()
@experiment
@ONE
@SET
@OUT
@click.option("--batch", "batches", default="", callback=_numbers, help="Micro-batches on a rank, such as 4,8.")
@click.option("--ranks", default="", callback=_numbers, help="Numbers of ranks, such as 1,2.")
@click.option("--strategy", "strategies", default="", callback=_texts, help="Of none, ddp, zero1, fsdp.")
@click.option("--bucket", "buckets", default="", callback=_texts, help="Sizes of buckets, such as '1 MiB,25 MiB'.")
@JSON
@common
def bench(
    file: Path,
    scenario: str | None,
    assignments: Sequence[str],
    out: Path,
    batches: Sequence[int],
    ranks: Sequence[int],
    strategies: Sequence[str],
    buckets: Sequence[str],
    as_json: bool,
) -> None:
    """Train a scenario in FILE with several settings, and write a table that 'simsys validate' reads."""
    from simsys.errors import UnknownNameError
    from simsys.lab.bench import STRATEGIES, variants
    from simsys.lab.bench import bench as run

    for name in strategies:
        if name not in STRATEGIES:
            raise UnknownNameError("strategy", name, STRATEGIES)
    path, rows = run(file, scenario, assignments, [*variants(batches, ranks, strategies, buckets)], out=out, say=say)
    if as_json:
        answer_json({"rows": rows, "files": [str(path)]})
        return
    for row in rows:
        quality = ", disturbed" if row["quality"] == "disturbed" else ""
        answer(f"{row['strategy']} {row['gpus']} x {row['micro_batch']}: {row['iter_time_s_derived']} s{quality}")
    say(f"wrote {path}")
