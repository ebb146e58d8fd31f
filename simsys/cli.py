"""The command line `simsys`, with the commands of `simsys.commands`."""

from __future__ import annotations

import sys
import textwrap

import click

from simsys.commands import (
    analyze,
    calibrate,
    catalogue,
    chakra,
    check,
    collectives,
    compare,
    completion,
    conform,
    emit,
    import_command,
    import_topology,
    import_trace,
    init,
    lab,
    lod,
    measure,
    memory,
    plot,
    report,
    run,
    scale,
    search,
    sweep,
    topology,
    validate,
)
from simsys.commands.example_lines import add_examples
from simsys.garbage import collect_rarely
from simsys.report.console import CommandGroup, answer
from simsys.version import __version__

START = """\
simsys simulates distributed AI training and LLM serving. For example:

  simsys init --serving
  simsys run serving.yaml --set hardware.num_nodes=4 --fail-on 'p99_ttft_ms>200'
  simsys list models
"""


def main() -> None:
    """Run the command line of this process; `simsys.__main__` has installed the handling of interrupts."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # unprintable characters must not fail a run
            stream.reconfigure(errors="backslashreplace")
    collect_rarely()
    cli.main(prog_name="simsys")


@click.group(cls=CommandGroup, invoke_without_command=True)
@click.version_option(__version__, prog_name="simsys")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Simulate distributed AI training and LLM serving.

    Exit codes: 0 success; 1 a --fail-on condition holds; 2 wrong usage, configuration or output; 3 a scenario does
    not fit its hardware; 4 internal error; 130 interrupted.
    """
    if ctx.invoked_subcommand is None:
        names = textwrap.fill(f"Commands: {', '.join(cli.commands)}.", 76, break_on_hyphens=False)
        answer(f"{START}\n{names}\n'simsys COMMAND --help' says more.")


for _command in (
    init.init,
    run.run,
    sweep.sweep,
    search.search,
    check.check,
    memory.memory,
    collectives.collectives,
    topology.topology,
    import_trace.import_trace,
    import_command.import_command,
    import_topology.import_topology,
    chakra.chakra,
    lod.lod,
    compare.compare,
    conform.conform,
    analyze.analyze,
    scale.scale,
    report.report,
    plot.plot,
    validate.validate,
    calibrate.calibrate,
    emit.emit,
    measure.measure,
    lab.lab,
    catalogue.list_,
    catalogue.show,
    completion.completion,
):
    cli.add_command(_command)
add_examples(cli)
