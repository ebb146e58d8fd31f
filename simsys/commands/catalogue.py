"""`simsys list` and `simsys show`: the names of a kind, and all facts about one name."""

from __future__ import annotations

import click

from simsys.commands.options import JSON, answer_json, common
from simsys.report.console import answer


@click.command("list")
@click.argument("kind")
@JSON
@common
def list_(kind: str, as_json: bool) -> None:
    """List all names of a KIND.

    KIND is one of: models, gpus, nodes, fabrics, engines, frameworks, collectives, topologies, metrics.
    """
    from simsys.report.catalogue import rows
    from simsys.report.listing import tables

    found = rows(kind)
    if as_json:
        answer_json({"kind": kind, "entries": found})
    else:
        answer(tables(found))


@click.command()
@click.argument("kind")
@click.argument("name")
@JSON
@common
def show(kind: str, name: str, as_json: bool) -> None:
    """Show all facts about one name, such as: simsys show gpu H100.

    KIND as in 'simsys list --help'. The NAME of a model may also be the path of a Hugging Face config.json, or of the
    folder that holds it.
    """
    from simsys.report.catalogue import facts
    from simsys.report.listing import description

    found = facts(kind, name)
    if as_json:
        answer_json({"kind": kind, "facts": found})
    else:
        answer(description(found))
