"""`simsys analyze`: what limits runs, where, and which settings help."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import click

from simsys.commands.options import JSON, SET, answer_json, common, limited, look_for_modules, no_modules
from simsys.report.console import answer


def _with_modules(ctx: click.Context, _: click.Parameter, source: str) -> str:
    look_for_modules(ctx, [Path(source.rpartition(":")[0] if not Path(source).exists() else source)])
    return source


@click.command()
@click.argument("source", metavar="RESULTS|FILE", callback=_with_modules)
@no_modules
@SET
@click.option(
    "--simulations",
    type=click.IntRange(0, 1000),
    default=40,
    show_default=True,
    help="Largest number of settings that are simulated for a scenario; 0 for none.",
)
@click.option("--all", "everything", is_flag=True, help="List all remedies, and resources without losses.")
@limited("settings", "a scenario, and of all simulations of its remedies")
@JSON
@common
def analyze(
    source: str,
    assignments: Sequence[str],
    simulations: int,
    everything: bool,
    limit_s: float,
    yes: bool,
    as_json: bool,
) -> int:
    """Print what limits a run: losses by resource, with their place, and settings that help.

    RESULTS is a folder that 'simsys run' has written; FILE is an experiment, or FILE:SCENARIO for one of its
    scenarios. Resources are compute, memory, network, queueing, bubble, KV capacity and host. Every remedy has been
    simulated: its gain, what is left of the bottleneck, and its cost are measured.
    """
    from simsys.analysis.analyze import analyze as analyzed
    from simsys.comparisons.sources import Change
    from simsys.report.analysis import analysis_text

    changed = Change(source, assignments) if assignments else source
    found = analyzed(changed, simulations=simulations, limit_s=math.inf if yes else limit_s)
    if as_json:
        answer_json({"analyses": [each.as_dict() for each in found]})
    else:
        answer("\n\n\n".join(analysis_text(each, everything=everything) for each in found), headline=True)
    return 0
