"""`simsys lab`: real training beside the simulation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from simsys.commands.options import JSON, SET, answer_json, common, experiment
from simsys.report.console import answer, say

ONE = click.option("--scenario", metavar="NAME", help="Select a scenario, of several.")
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
