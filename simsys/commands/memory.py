"""`simsys memory`: what scenarios hold in device memory."""

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
@click.option("--levers/--no-levers", default=None, help="Whether to say what saves memory; if it does not fit.")
@JSON
@common
def memory(file: Path, names: Sequence[str], assignments: Sequence[str], levers: bool | None, as_json: bool) -> int:
    """Say what the scenarios of FILE hold in device memory; exit with 3 if one does not fit.

    Of training that does not fit, and with --levers of any, it says what would save memory and at what cost, and of
    data-parallel training which strategy suits it. With --no-levers nothing is compared by simulation.
    """
    from simsys.errors import InfeasibleError
    from simsys.report.memory import memory_answers

    answers = memory_answers(file, assignments, names, levers=levers)
    if as_json:
        answer_json({"scenarios": [each.as_dict() for each in answers]})
    else:
        answer("\n\n".join(each.text() for each in answers))
    return InfeasibleError.exit_code if any(each.problem for each in answers) else 0
