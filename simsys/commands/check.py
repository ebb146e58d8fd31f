"""`simsys check`: can the scenarios be simulated?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    from simsys.errors import ConfigError, InfeasibleConfigError
    from simsys.sweeps.check import check_with_sweeps

    warnings: list[Problem] = []
    try:
        checked = check_with_sweeps(file, assignments, warn=warnings.append)
    except (ConfigError, InfeasibleConfigError) as error:
        if not as_json:
            raise
        _answer(file, [], {}, error.problems, warnings)
        return error.exit_code
    if as_json:
        _answer(file, checked.names, checked.sweeps, [], warnings)
    else:
        for name, place in current().imported.items():
            answer(f"imported: {name} from {place}")
        for problem in warnings:
            answer(f"warning: {problem}")
        parts = [f"{len(checked.names)} scenario{'s' if len(checked.names) > 1 else ''}: {', '.join(checked.names)}"]
        parts = parts if checked.names else []
        parts += [f"a sweep of {name} with {count:,} points" for name, count in checked.sweeps.items()]
        answer(f"{file}: ok, {'; '.join(parts)}")
    return 0


def _answer(
    file: Path,
    names: Sequence[str],
    sweeps: Mapping[str, int],
    problems: Sequence[Problem],
    warnings: Sequence[Problem],
) -> None:
    lists = {"problems": [*map(_problem, problems)], "warnings": [*map(_problem, warnings)]}
    modules = [{"name": name, "file": place} for name, place in current().imported.items()]
    answer_json({"file": str(file), "scenarios": list(names), "sweeps": dict(sweeps), **lists, "modules": modules})


def _problem(problem: Problem) -> dict[str, Any]:
    said = {key: getattr(problem, key) for key in ("message", "path", "file", "line", "column")}
    return {**said, "fixes": [fix.as_dict() for fix in problem.fixes]}
