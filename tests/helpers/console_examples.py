"""The console examples of pages: commands, files and what is printed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from click.testing import CliRunner

from simsys.cli import cli

PAGES = (
    "../README.md",
    "explanation/networks.md",
    "explanation/serving.md",
    "explanation/training.md",
    "how-to/analysis.md",
    "how-to/compare.md",
    "how-to/emit.md",
    "how-to/validation.md",
    "tutorials/first-answer.md",
)
"""Pages below `docs` whose examples are carried out."""
REST = "..."
"""Stands for any output between two parts that are shown, and at the end."""
BLOCK = re.compile(r"^```console\n(.*?)^```", re.M | re.S)


def blocks(page: Path) -> list[str]:
    """The examples of a page."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def carry_out(block: str, folder: Path) -> None:
    """Write the files of an example into the current folder, run its commands, and compare what they print."""
    for _, command, shown in commands(block):
        if command[0] == "cat":
            (folder / command[1]).write_text(shown, encoding="utf-8")
        else:
            _compare(" ".join(printed_by(command).split()), " ".join(shown.split()))


def commands(block: str) -> Iterator[tuple[str, list[str], str]]:
    """The commands of an example: as typed, its words, and what is shown of its output."""
    for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
        typed, _, shown = part.partition("\n")
        yield typed, shlex.split(typed), shown


def printed_by(command: Sequence[str]) -> str:
    """What a command prints; its errors if there is nothing else."""
    assert command[0] == "simsys"
    result = CliRunner().invoke(cli, command[1:])
    return result.stdout or result.stderr


def _compare(printed: str, shown: str) -> None:
    begun, *rest = (part.strip() for part in shown.split(REST))
    if not rest:
        assert printed == begun
        return
    assert printed.startswith(begun)
    for part in filter(None, rest):
        assert part in printed
        printed = printed.partition(part)[2]
