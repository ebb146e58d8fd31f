"""The page of all commands with their options, from click."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from scripts.reference.markdown import MADE, table
from simsys.cli import cli
from simsys.report.prose import wrapped

INTRODUCTION = f"""\
# Commands

{MADE}

`simsys COMMAND --help` prints the same in a terminal.
"""


def page_text() -> str:
    """Return the page as Markdown."""
    lines = [INTRODUCTION, *_help(cli), "", *(line for found in _commands(cli, "simsys") for line in _section(*found))]
    return wrapped("\n".join(lines)).rstrip("\n") + "\n"


def _commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    for name in sorted(group.commands):
        command = group.commands[name]
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from _commands(command, f"{path} {name}")


def _section(path: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=path)
    yield from (f"## {path}", "", "```text", " ".join([path, *command.collect_usage_pieces(context)]), "```", "")
    yield from _help(command)
    yield from _example(command)
    yield ""
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    shown = [option for option in options if not option.hidden]
    if shown:
        yield from table(("option", "meaning"), ((_names(option), _meaning(option)) for option in shown))


def _help(command: click.Command) -> Iterator[str]:
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b"):
            yield from ("```text", paragraph.removeprefix("\b").strip("\n"), "```")
        else:
            yield " ".join(paragraph.split()).replace("<", "\\<")
        yield ""


def _example(command: click.Command) -> Iterator[str]:
    lines = [line.strip() for line in (command.epilog or "").splitlines() if line.startswith("  ")]
    if lines:
        yield from ("```text", *(f"$ {line}" for line in lines), "```")


def _names(option: click.Option) -> str:
    value = "" if option.is_flag else f" {option.metavar or _metavar(option)}"
    names = ", ".join([*option.opts, *option.secondary_opts])
    return f"`{names}{value}`"


def _metavar(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return f"[{'|'.join(str(choice) for choice in option.type.choices)}]"
    return option.type.name.upper()


def _meaning(option: click.Option) -> str:
    default = option.default
    stated = option.show_default and isinstance(default, (str, int, float)) and not isinstance(default, bool)
    return (option.help or "").replace("<", "\\<") + (f" Default: {default}." if stated else "")
