"""`simsys collectives`: times of collectives by size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from simsys.commands.options import JSON, SCENARIO, SET, answer_json, common, experiment
from simsys.report.console import answer


@click.command()
@experiment
@SCENARIO
@SET
@click.option("--op", default="all_reduce", show_default=True, help="The collective, such as all_gather.")
@click.option(
    "--sizes",
    metavar="A..B",
    default="1KiB..1GiB",
    show_default=True,
    help="Range of sizes, each twice the previous one.",
)
@click.option("--gpus", type=int, help="Number of GPUs, counted from the first; default: all.")
@JSON
@common
def collectives(
    file: Path, names: Sequence[str], assignments: Sequence[str], op: str, sizes: str, gpus: int | None, as_json: bool
) -> None:
    """Print the time of a collective by size on the clusters in FILE, as nccl-tests does.

    A size is the full buffer (the whole output of an all-gather). Links are idle otherwise.
    """
    from simsys.report.collectives import collective_tables

    tables = collective_tables(file, assignments, names, op=op, sizes=sizes, gpus=gpus)
    if as_json:
        answer_json({"scenarios": [each.as_dict() for each in tables]})
    else:
        answer("\n\n".join(each.text() for each in tables))
