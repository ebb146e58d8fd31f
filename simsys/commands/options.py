"""Options that several commands share, and JSON output."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from simsys.commands import completed
from simsys.contents.printed import SCHEMA_VERSION
from simsys.report.console import DEBUG, answer
from simsys.user_modules import UserModules, looked_for

if TYPE_CHECKING:
    from simsys.contents.printed import Printed
    from simsys.contents.run import RunContent
    from simsys.contents.sweep import SweepContent
    from simsys.report.threshold import Threshold

Function = TypeVar("Function", bound=Callable[..., Any])


LIMIT_S = 15.0
"""Default limit of the estimated processor time of a scenario."""
NO_MODULES = "simsys.no_modules"
"""Key in click's ``Context.meta``: whether own modules are refused."""


def with_modules(ctx: click.Context, _: click.Parameter, file: Path | None) -> Path | None:
    """Find modules next to the experiment and in the current folder, after installed ones."""
    if file is not None:
        look_for_modules(ctx, [file])
    return file


def look_for_modules(ctx: click.Context, files: Sequence[Path]) -> None:
    """Find modules next to these files and in the current folder, after installed ones."""
    places = dict.fromkeys([*(file.parent for file in files), Path(".")])
    folders = [Path(os.path.abspath(folder)) for folder in places] if _has_folder() else []
    ctx.with_resource(looked_for(UserModules(folders, allowed=not ctx.meta.get(NO_MODULES))))


def _has_folder() -> bool:
    """Whether the current folder exists; it may have been removed."""
    try:
        os.getcwd()
    except OSError:
        return False
    return True


FILE = click.argument("file", type=click.Path(path_type=Path))
SCENARIO = click.option(
    "--scenario",
    "names",
    metavar="NAME",
    multiple=True,
    shell_complete=completed.scenarios,
    help="Select a scenario. Repeatable.",
)
SET = click.option(
    "--set",
    "assignments",
    metavar="PATH=VALUE",
    multiple=True,
    shell_complete=completed.settings,
    help="Change a setting. Repeatable.",
)
REPORT = click.option(
    "--report",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also write an HTML report, as 'simsys report' does.",
)
OUT = click.option(
    "--out", type=click.Path(path_type=Path), default="results", show_default=True, help="Folder for output files."
)
NO_FILES = click.option("--no-files", is_flag=True, help="Write no files.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")


def experiment(function: Function) -> Function:
    """Add the argument FILE and the option that refuses own modules."""
    file = click.argument("file", type=click.Path(path_type=Path), callback=with_modules)
    return file(no_modules(function))


def no_modules(function: Function) -> Function:
    """The option to refuse modules that do not come with simsys."""
    return _flag("--no-modules", _no_modules, "Refuse modules that do not come with simsys.")(function)


def limited(what: str = "scenarios", limit_of: str = "a scenario") -> Callable[[Function], Function]:
    """Add the options that limit the estimated processor time, and that lift the limit.

    Args:
        what: What exceeds the limit.
        limit_of: What the limit is for.
    """
    limit = click.option(
        "--limit",
        "limit_s",
        type=click.FloatRange(1.0),
        default=LIMIT_S,
        show_default=True,
        help=f"Limit of the estimated processor time of {limit_of}, in seconds.",
    )
    yes = click.option("--yes", is_flag=True, help=f"Simulate {what} that exceed the limit, too.")
    return lambda function: limit(yes(function))


def common(function: Function) -> Function:
    """Add the options common to all commands."""
    debug = _flag("--debug", _debug, "Print the traceback of an error.")
    return _flag("--no-color", _no_color, "No colours; same as NO_COLOR.")(debug(function))


def conditions_on(figures: Sequence[str], texts: Sequence[str], *, example: str, what: str) -> list[Threshold]:
    """The conditions of ``--fail-on``.

    Args:
        figures: The names that they may have.
        texts: The conditions as written.
        example: One, for messages.
        what: What the names are, for messages.

    Raises:
        UnknownNameError: If a condition has another name.
        UsageError: If it is none.
    """
    from simsys.errors import UnknownNameError
    from simsys.report.threshold import Threshold

    found = [Threshold.parse(text, example=example) for text in texts]
    for each in found:
        if each.metric not in figures:
            raise UnknownNameError(what, each.metric, figures)
    return found


def write_report(content: Sequence[RunContent] | SweepContent | Printed, path: Path | None) -> list[Path]:
    """Write the page of some content, if there is a path for it; return the files.

    Raises:
        OutputError: If it cannot be written.
    """
    if path is None:
        return []
    from simsys.html.page import write_page
    from simsys.html.sources import page_of

    return [write_page(page_of(content), path)]


def repeated(option: str, values: Sequence[str]) -> list[str]:
    """The words of an option that is given once for each value."""
    return [text for value in values for text in (option, value)]


def answer_json(content: dict[str, Any]) -> None:
    """Print one JSON object."""
    from simsys.report.export import json_text

    answer(json_text({"schema_version": SCHEMA_VERSION, **content}).rstrip("\n"))


def _debug(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.meta[DEBUG] = value


def _no_modules(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.meta[NO_MODULES] = value


def _no_color(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value or os.environ.get("NO_COLOR"):
        ctx.color = ctx.find_root().color = False


def _flag(name: str, callback: Callable[..., None], text: str) -> Callable[[Function], Function]:
    return click.option(name, is_flag=True, expose_value=False, is_eager=True, callback=callback, help=text)
