"""`simsys topology`: the network of scenarios."""

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
@click.option("--route", "ends", type=int, nargs=2, metavar="SRC DST", help="Show the route between these GPUs.")
@click.option("--links", "folder", type=click.Path(path_type=Path), help="Folder for CSV tables of all links.")
@JSON
@common
def topology(
    file: Path,
    names: Sequence[str],
    assignments: Sequence[str],
    ends: tuple[int, int] | None,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Show the network of the scenarios in FILE: vertices, links, hops between GPUs, bisection bandwidth, a route."""
    from simsys.report.topology import topology_answers, write_link_tables

    answers = topology_answers(file, assignments, names, ends)
    files = write_link_tables(answers, folder) if folder is not None else []
    if as_json:
        answer_json({"scenarios": [each.as_dict() for each in answers], "files": [str(path) for path in files]})
    else:
        answer("\n\n".join(each.text() for each in answers))
