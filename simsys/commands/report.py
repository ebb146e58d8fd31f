"""`simsys report`: results as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from simsys.commands.options import common
from simsys.report.console import answer


@click.command()
@click.argument("results", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), default="report.html", show_default=True, help="The file to write."
)
@common
def report(results: Sequence[Path], out: Path) -> int:
    """Write an HTML file about RESULTS, the folders that 'simsys run' has written.

    The file holds everything that it shows, and needs no network.
    """
    from simsys.html.page import write_page
    from simsys.html.results import read_run
    from simsys.html.run import run_page

    write_page(run_page([read_run(folder) for folder in results]), out)
    answer(str(out))
    return 0
