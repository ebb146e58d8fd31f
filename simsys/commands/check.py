"""`simsys check`: can the scenarios be simulated?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simsys.commands.options import JSON, SET, answer_json, common, experiment
from simsys.report.console import answer
from simsys.user_modules import current

if TYPE_CHECKING:
    from simsys.errors import Problem


@click.command()
@experiment
@SET
@JSON
@common
def check(file: Path, assignments: Sequence[str], as_json: bool) -> int:
    """Check that the scenarios in FILE can be simulated, and list all problems."""
    from simsys.check import check_file
    from simsys.errors import ConfigError, InfeasibleConfigError

    warnings: list[Problem] = []
    try:
        names = [built.config.name for built in check_file(file, assignments, warn=warnings.append)]
    except (ConfigError, InfeasibleConfigError) as error:
        if not as_json:
            raise
        _answer(file, [], error.problems, warnings)
        return error.exit_code
    if as_json:
        _answer(file, names, [], warnings)
    else:
        for name, place in current().imported.items():
            answer(f"imported: {name} from {place}")
        for problem in warnings:
            answer(f"warning: {problem}")
        answer(f"{file}: ok, {len(names)} scenario{'s' if len(names) > 1 else ''}: {', '.join(names)}")
    return 0


def _answer(file: Path, names: Sequence[str], problems: Sequence[Problem], warnings: Sequence[Problem]) -> None:
    lists = {"problems": [*map(_problem, problems)], "warnings": [*map(_problem, warnings)]}
    modules = [{"name": name, "file": place} for name, place in current().imported.items()]
    answer_json({"file": str(file), "scenarios": list(names), **lists, "modules": modules})


def _problem(problem: Problem) -> dict[str, Any]:
    said = {key: getattr(problem, key) for key in ("message", "path", "file", "line", "column")}
    return {**said, "fixes": [fix.as_dict() for fix in problem.fixes]}
