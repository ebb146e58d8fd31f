"""The console examples of a page: commands, files and what is printed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from click.testing import CliRunner

from simsys.cli import cli

REST = "..."
"""Stands for any output between two parts that are shown, and at the end."""


def blocks(page: Path) -> list[str]:
    """The examples of a page."""
    return re.findall(r"^```console\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


def carry_out(block: str, folder: Path) -> None:
    """Write the files of an example into the current folder, run its commands, and compare what they print."""
    for command, shown in _commands(block):
        if command[0] == "cat":
            (folder / command[1]).write_text(shown, encoding="utf-8")
            continue
        assert command[0] == "simsys"
        result = CliRunner().invoke(cli, command[1:])
        printed = " ".join((result.stdout or result.stderr).split())
        _compare(printed, " ".join(shown.split()))


def _commands(block: str) -> Iterator[tuple[list[str], str]]:
    for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
        command, _, shown = part.partition("\n")
        yield shlex.split(command), shown


def _compare(printed: str, shown: str) -> None:
    begun, *rest = (part.strip() for part in shown.split(REST))
    if not rest:
        assert printed == begun
        return
    assert printed.startswith(begun)
    for part in filter(None, rest):
        assert part in printed
        printed = printed.partition(part)[2]
