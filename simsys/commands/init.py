"""`simsys init`: files to start from."""

from __future__ import annotations

from pathlib import Path

import click

from simsys.commands.options import common
from simsys.errors import UsageError
from simsys.report.console import answer

WHAT = "--serving, --training, --cluster, --plugin NAME, --hardware NAME"


@click.command()
@click.option("--serving", is_flag=True, help="A service that answers with a language model.")
@click.option("--training", is_flag=True, help="A training job.")
@click.option("--cluster", is_flag=True, help="Several jobs that share a cluster.")
@click.option("--plugin", metavar="NAME", help="A package with a scheduler, a metric and their tests.")
@click.option("--hardware", metavar="NAME", help="A GPU of your own, and an experiment that uses it.")
@click.option("--out", type=click.Path(path_type=Path), help="The file to write, or the folder of several.")
@click.option("--force", is_flag=True, help="Replace files that exist.")
@common
def init(out: Path | None, force: bool, **wanted: str | bool | None) -> None:
    """Write a commented file to start from, which runs as it is.

    Files that exist are kept, unless --force is given.
    """
    from simsys.templates.starts import NAMED, start_of_experiment

    given = [(kind, value) for kind, value in wanted.items() if value]
    if len(given) != 1:
        raise UsageError(f"say what to write{', one of them' if given else ''}: {WHAT}")
    ((kind, value),) = given
    start = NAMED[kind](value, out) if isinstance(value, str) else start_of_experiment(kind, out)
    written = start.write(force=force)
    lines = [*(f"wrote {path}" for path in written), "Next, type:", *(f"  {step}" for step in start.next_steps)]
    answer("\n".join(lines))
