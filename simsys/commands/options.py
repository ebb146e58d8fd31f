"""What the commands have in common: options, and JSON as an answer."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from simsys.report.console import DEBUG, answer

SCHEMA_VERSION = 1
"""Of the JSON written here; a change that could break a reader raises it."""

Function = TypeVar("Function", bound=Callable[..., Any])


def _with_modules(ctx: click.Context, _: click.Parameter, file: Path) -> Path:
    """Find modules that lie beside the file or in the current folder, after all others, so that none is hidden."""
    with suppress(OSError):  # there may be no current folder any more
        for folder in (os.path.abspath(file.parent), os.getcwd()):
            if folder not in sys.path:
                sys.path.append(folder)
                ctx.call_on_close(partial(sys.path.remove, folder))
    return file


FILE = click.argument("file", type=click.Path(path_type=Path), callback=_with_modules)
SCENARIO = click.option("--scenario", "names", metavar="NAME", multiple=True, help="Only this scenario. Repeatable.")
SET = click.option("--set", "assignments", metavar="PATH=VALUE", multiple=True, help="Change a setting. Repeatable.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")


def common(function: Function) -> Function:
    """The options that every command has."""
    debug = _flag("--debug", _debug, "Show where an error comes from.")
    return _flag("--no-color", _no_color, "Plain text; also with NO_COLOR.")(debug(function))


def answer_json(content: dict[str, Any]) -> None:
    """Print one JSON object."""
    from simsys.report.export import json_text

    answer(json_text({"schema_version": SCHEMA_VERSION, **content}).rstrip("\n"))


def _debug(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.meta[DEBUG] = value


def _no_color(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value or os.environ.get("NO_COLOR"):
        ctx.color = ctx.find_root().color = False


def _flag(name: str, callback: Callable[..., None], text: str) -> Callable[[Function], Function]:
    return click.option(name, is_flag=True, expose_value=False, is_eager=True, callback=callback, help=text)
