"""The console examples of some pages print what they show: a reader who types them gets the same."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.helpers.console_examples import PAGES, blocks, carry_out
from tests.helpers.places import ROOT


@pytest.mark.parametrize("name", PAGES)
def test_a_page_prints_what_it_shows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    for block in blocks(ROOT / "docs" / name):
        carry_out(block, tmp_path)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_examples(name: str) -> None:
    assert len(blocks(ROOT / "docs" / name)) >= 1


def test_another_output_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        carry_out("$ simsys --version\nsimsys, version 0\n", tmp_path)


def test_what_is_left_out_of_an_output_stays_so_when_a_page_is_written_anew() -> None:
    shown_again = runpy.run_path(str(ROOT / "scripts" / "make_console_examples.py"))["shown_again"]
    printed = "a run: 3.2 s\n  loss      4 %\n  memory    9 GB\n  traffic   70 MB\n  cost      2 $\n"
    assert shown_again("a run: 1.5 s\n...\n  memory    8 GB\n  traffic   66 MB\n...\n", printed) == (
        "a run: 3.2 s\n...\n  memory    9 GB\n  traffic   70 MB\n...\n"
    )
    assert shown_again("a run: 1.5 s\n", printed) == printed
    with pytest.raises(SystemExit, match="no line is printed that is like 'another'"):
        shown_again("another\n...\n", printed)
