"""`simsys plot`: a picture of results."""

from __future__ import annotations

from pathlib import Path

import click

from simsys.commands.options import JSON, answer_json, common
from simsys.errors import UsageError
from simsys.report.console import answer


@click.command()
@click.argument("results", type=click.Path(path_type=Path))
@click.argument("kind", required=False, default="")
@click.option("--out", type=click.Path(path_type=Path), help="The file, .png or .svg; default: KIND.png.")
@click.option("--job", metavar="NAME", default="", help="One of the jobs that share the cluster of the run.")
@JSON
@common
def plot(results: Path, kind: str, out: Path | None, job: str, as_json: bool) -> int:
    """Draw RESULTS as a picture of some KIND; without KIND, list the kinds that these results allow.

    RESULTS is a folder of 'simsys run' or 'simsys sweep', or a file with what search or lod have printed with --json.
    Some kinds need data that 'simsys run --plots' writes.
    """
    from simsys.plots.drawing import check_ending, write_figure
    from simsys.plots.picture import draw, listed, one_content
    from simsys.report.listing import table

    content = one_content(results, job)
    if not kind:
        rows = listed(content)
        if as_json:
            answer_json({"kinds": rows})
        else:
            answer(table(rows) if rows else f"{results}: nothing of this can be drawn")
        return 0
    path = out if out is not None else Path(f"{kind}.png")
    check_ending(path)
    try:
        figure = draw(content, kind)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise UsageError(f"{results}: these results are incomplete or of another version ({error!r})") from error
    write_figure(figure, path)
    if as_json:
        answer_json({"files": [str(path)]})
    else:
        answer(str(path))
    return 0
