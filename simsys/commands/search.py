"""`simsys search`: the best layouts of a training job, or deployments for serving."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from simsys import interrupts
from simsys.commands import completed
from simsys.commands.options import JSON, REPORT, SET, answer_json, common, experiment, write_report
from simsys.commands.search_emit import Emission, emission_options
from simsys.interrupts import INTERRUPTED
from simsys.report.console import answer, say

DEFAULT_SIMULATIONS = 300


def _processes() -> int:
    """The number of processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


@click.command()
@experiment
@click.option(
    "--scenario",
    metavar="NAME",
    shell_complete=completed.scenarios,
    help="Name of the scenario, if the file has several.",
)
@SET
@click.option("--top", type=click.IntRange(1), default=10, show_default=True, help="Number of answers to print.")
@click.option(
    "--pareto",
    nargs=2,
    metavar="METRIC METRIC",
    help="Print the answers that no other one beats in both metrics: 'steady_iteration_s peak_memory_share'.",
)
@click.option("--jobs", type=click.IntRange(1), default=_processes, help="Number of processes; default: all cores.")
@click.option(
    "--simulations",
    type=click.IntRange(1),
    default=DEFAULT_SIMULATIONS,
    show_default=True,
    help="Largest number of simulations.",
)
@emission_options
@REPORT
@JSON
@common
def search(
    file: Path,
    scenario: str | None,
    assignments: Sequence[str],
    top: int,
    pareto: tuple[str, str] | None,
    jobs: int,
    simulations: int,
    emission: Emission,
    report: Path | None,
    as_json: bool,
) -> int:
    """Find the best layouts of training, or deployments for serving, of FILE; exit with 3 if nothing is feasible.

    The section 'search' is the question: minimize or maximize a metric, subject_to conditions, over settings. All
    candidates are checked and bounded by closed forms, and the most promising are simulated. Layouts of training have
    the same batch: training.global_batch_size. Deployments meet the targets of 'slo' at the rate of the workload; with
    'maximize: goodput', the greatest such rate is found.
    """
    from simsys.config.scenarios import read_scenario
    from simsys.contents.printed import printed
    from simsys.errors import InfeasibleError
    from simsys.report.search import search_text
    from simsys.searches import search as find

    config = read_scenario(file, assignments, scenario)
    emission.check(config)
    try:
        with interrupts.raised():
            found = find(config, top=top, pareto=pareto or (), jobs=jobs, simulations=simulations)
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
    if not as_json:
        answer(search_text(found))
    emitted = emission.write(config, [each.settings for each in found.best])
    for path in write_report(printed("search", found.as_dict()), report):
        say(f"wrote {path}")
    if as_json:
        answer_json({**found.as_dict(), **emitted.as_dict()})
    elif lines := emitted.lines():
        answer("\n".join(lines))
    return 0 if found.best else InfeasibleError.exit_code
