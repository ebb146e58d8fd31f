"""`simsys list` and `simsys show`: the names of a kind, and all facts about one name."""

from __future__ import annotations

from collections.abc import Sequence

import click

from simsys.commands import completed
from simsys.commands.options import JSON, answer_json, common, look_for_modules
from simsys.report.console import answer, say


def _with_modules(ctx: click.Context, _: click.Parameter, modules: Sequence[str]) -> Sequence[str]:
    look_for_modules(ctx, [])
    return modules


@click.command("list")
@click.argument("kind", shell_complete=completed.kinds)
@click.option(
    "--module",
    "modules",
    metavar="NAME",
    multiple=True,
    callback=_with_modules,
    help="Also list what this module of yours registers, such as my_metrics. Repeatable.",
)
@JSON
@common
def list_(kind: str, modules: Sequence[str], as_json: bool) -> None:
    """List all names of a KIND.

    KIND is one of: models, gpus, nodes, fabrics, engines, frameworks, collectives, topologies, metrics, settings,
    examples.
    """
    from simsys.report.catalogue import import_own, rows
    from simsys.report.listing import tables

    import_own(modules)
    found = rows(kind, lambda text: say(f"note: {text}"))
    if as_json:
        answer_json({"kind": kind, "entries": found})
    else:
        answer(tables(found))


@click.command()
@click.argument("kind", shell_complete=completed.kinds_singular)
@click.argument("name", required=False, shell_complete=completed.names_of_kind)
@click.option("--all", "whole", is_flag=True, help="Print every number with its source, however many there are.")
@JSON
@common
def show(kind: str, name: str | None, whole: bool, as_json: bool) -> None:
    """Show the facts about one name, such as: simsys show gpu H100.

    KIND as in 'simsys list --help'; it may be left out where only one thing has the name. The NAME of a model
    may also be the path of a Hugging Face config.json, or of the folder that holds it; that of a setting is its
    path, such as serving.max_num_seqs.
    """
    from simsys.report.catalogue import facts, kind_of
    from simsys.report.listing import description, outline

    if name is None:
        kind, name = kind_of(kind), kind
    found = facts(kind, name)
    if as_json:
        answer_json({"kind": kind, "facts": found})
        return
    text, short = (description(found), False) if whole else outline(found)
    answer(text)
    if short:
        say(f"'simsys show {kind} {name} --all' prints every number with its source")
