"""`simsys collectives`: what collectives take, size by size."""

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
@click.option("--op", default="all_reduce", show_default=True, help="Which collective, such as all_gather.")
@click.option("--sizes", metavar="A..B", default="1KiB..1GiB", show_default=True, help="Sizes, each twice the last.")
@click.option("--gpus", type=int, help="How many GPUs take part, the first ones; all if left out.")
@JSON
@common
def collectives(
    file: Path, names: Sequence[str], assignments: Sequence[str], op: str, sizes: str, gpus: int | None, as_json: bool
) -> None:
    """Say what collectives take on the clusters of FILE, size by size, as nccl-tests does.

    Sizes are full buffers: of an all-gather the whole output. Nothing else uses the links.
    """
    from simsys.report.collectives import collective_tables

    tables = collective_tables(file, assignments, names, op=op, sizes=sizes, gpus=gpus)
    if as_json:
        answer_json({"scenarios": [each.as_dict() for each in tables]})
    else:
        answer("\n\n".join(each.text() for each in tables))
