"""The argument FILE where a preset or an example of simsys' own may take its place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from simsys.commands.options import Function, no_modules, with_modules

if TYPE_CHECKING:
    from simsys.report.examples import Example

CHOSEN, DEFAULT = "simsys.chosen", "simsys.default_preset"
"""Keys in click's ``Context.meta``: the example that was chosen, and the preset if nothing is."""
NUMBERS = ["1", "2", "3", "4", "5"]


def experiment_or_preset(function: Function) -> Function:
    """Add FILE, the options that take its place, and the scenarios of either."""
    function = click.argument("file", type=click.Path(path_type=Path), required=False, callback=_file)(function)
    function = click.option(
        "--preset",
        type=click.Choice(["small", "medium", "large"]),
        is_eager=True,
        expose_value=False,
        callback=_chosen,
        help="Instead of FILE: training of GPT-2 on 8, 32 or 128 GPUs.",
    )(function)
    function = click.option(
        "--example",
        type=click.Choice(NUMBERS),
        is_eager=True,
        expose_value=False,
        callback=_chosen,
        help="Instead of FILE: an example; 'simsys list examples' says what each shows.",
    )(function)
    return no_modules(
        click.option(
            "--scenario",
            "names",
            metavar="NAME",
            multiple=True,
            callback=_names,
            help="Select a scenario. Repeatable.",
        )(function)
    )


def _chosen(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is None:
        return
    from simsys.report.examples import EXAMPLES, PRESETS

    if CHOSEN in ctx.meta:
        raise click.UsageError("give one of FILE, --preset and --example", ctx)
    ctx.meta[CHOSEN] = (PRESETS if parameter.name == "preset" else EXAMPLES)[value]


def _example(ctx: click.Context) -> Example | None:
    found: Example | None = ctx.meta.get(CHOSEN)
    if found is None and DEFAULT in ctx.meta:
        from simsys.report.examples import PRESETS

        return PRESETS[ctx.meta[DEFAULT]]
    return found


def _file(ctx: click.Context, parameter: click.Parameter, file: Path | None) -> Path | None:
    if file is not None and CHOSEN in ctx.meta:
        raise click.UsageError("give one of FILE, --preset and --example", ctx)
    if file is not None:
        ctx.meta.pop(DEFAULT, None)
        return with_modules(ctx, parameter, file)
    example = _example(ctx)
    if example is None and not ctx.resilient_parsing:
        instead = "--preset or --example may take its place."
        raise click.MissingParameter(instead, ctx, parameter, "'FILE'")
    return with_modules(ctx, parameter, example.file) if example else None


def _names(ctx: click.Context, _: click.Parameter, names: Sequence[str]) -> Sequence[str]:
    example = _example(ctx)
    return names or (example.names if example else ())
