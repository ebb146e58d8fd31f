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
@click.option(
    "--analyze", is_flag=True, help="Also simulate remedies of the bottlenecks of runs, as 'simsys analyze' does."
)
@common
def report(results: Sequence[Path], out: Path, analyze: bool) -> int:
    """Write an HTML file about RESULTS: folders of 'simsys run', or one of 'simsys sweep'.

    RESULTS may also be what analyze, compare, lod, scale, search or validate have printed with --json, in a file. The
    HTML file holds everything that it shows, and needs no network.
    """
    from simsys.html.page import write_page
    from simsys.html.sources import page_of_paths

    write_page(page_of_paths(results, analyze=analyze), out)
    answer(str(out))
    return 0
