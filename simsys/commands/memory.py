"""`simsys memory`: device memory of scenarios."""

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
@click.option(
    "--remedies/--no-remedies",
    default=None,
    help="List settings that save memory; default: only if the scenario does not fit.",
)
@JSON
@common
def memory(file: Path, names: Sequence[str], assignments: Sequence[str], remedies: bool | None, as_json: bool) -> int:
    """Print the device memory of the scenarios in FILE; exit with 3 if one does not fit.

    For training that does not fit (with --remedies: for all training), list settings that save memory, with their cost
    in time. For data-parallel training, recommend a strategy. With --no-remedies, skip the simulations that compare
    settings.
    """
    from simsys.errors import InfeasibleError
    from simsys.report.memory import memory_answers

    answers = memory_answers(file, assignments, names, remedies=remedies)
    if as_json:
        answer_json({"scenarios": [each.as_dict() for each in answers]})
    else:
        answer("\n\n".join(each.text() for each in answers))
    return InfeasibleError.exit_code if any(each.problem for each in answers) else 0
