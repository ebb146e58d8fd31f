"""The console examples of some pages print what they show: a reader who types them gets the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.console_examples import blocks, carry_out
from tests.helpers.places import ROOT

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
