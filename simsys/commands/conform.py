"""`simsys conform`: decisions of a scheduler against the step log of a real engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from simsys.commands.options import JSON, SCENARIO, SET, answer_json, common, conditions_on, experiment
from simsys.report.console import answer, say

if TYPE_CHECKING:
    from simsys.report.threshold import Threshold


def _conditions(_: click.Context, __: click.Parameter, texts: Sequence[str]) -> list[Threshold]:
    from simsys.conformance.comparison import FIGURES

    return conditions_on(FIGURES, texts, example="equal_share<1", what="figure of a comparison")


@click.command()
@experiment
@click.argument("log", type=click.Path(path_type=Path))
@SCENARIO
@SET
@click.option(
    "--fail-on",
    "conditions",
    metavar="CONDITION",
    multiple=True,
    callback=_conditions,
    help="Exit with 1 if this holds, such as 'equal_share<1'; figures: equal_share, equal_steps_at_first. Repeatable.",
)
@JSON
@common
def conform(
    file: Path,
    log: Path,
    names: Sequence[str],
    assignments: Sequence[str],
    conditions: Sequence[Threshold],
    as_json: bool,
) -> int:
    """Compare the scheduler of a serving scenario in FILE with the step log LOG of a real engine, step by step.

    LOG has one JSON object for each step: {"arrived": [{"id": "a", "prompt_tokens": 900, "output_tokens": 60}],
    "scheduled": {"a": 900}, "preempted": []}. How to write one with vLLM: docs/how-to/validation.md.
    """
    from simsys.config.scenarios import read_scenarios
    from simsys.conformance.comparison import conformance

    found = [conformance(config, log) for config in read_scenarios(file, assignments, names)]
    if as_json:
        answer_json({"conformance": [each.as_dict() for each in found]})
    else:
        answer("\n".join(each.text() for each in found))
    failed = [
        f"failed: {each.scenario}: {condition.metric} is {each.figures[condition.metric]:.4g}"
        for each in found
        for condition in conditions
        if condition.holds(each.figures[condition.metric])
    ]
    for line in failed:
        say(line)
    return 1 if failed else 0
