"""The console examples of docs/how-to/analysis.md print what they show."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from simsys.cli import cli
from tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "how-to" / "analysis.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```console\n(.*?)^```", PAGE, re.M | re.S)
REST = "..."
"""Ends an output of which only the beginning is shown."""


def commands(block: str) -> Iterator[tuple[list[str], str]]:
    """Each command with the text below it."""
    for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
        command, _, shown = part.partition("\n")
        yield shlex.split(command), shown


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_a_console_example_prints_what_it_shows(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for command, shown in commands(block):
        if command[0] == "cat":
            (tmp_path / command[1]).write_text(shown, encoding="utf-8")
            continue
        assert command[0] == "simsys"
        printed = " ".join(CliRunner().invoke(cli, command[1:]).stdout.split())
        begun, rest, _ = " ".join(shown.split()).partition(REST)
        assert printed.startswith(begun.strip()) if rest else printed == begun


def test_there_are_examples() -> None:
    assert len(BLOCKS) >= 2
