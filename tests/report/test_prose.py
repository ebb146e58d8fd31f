"""Lines of prose are divided, other lines are not."""

from __future__ import annotations

import pytest

from simsys.report.prose import WIDTH, wrapped

LONG = " ".join(["word"] * 60)


def test_a_paragraph_and_an_item_are_divided_without_loss() -> None:
    text = wrapped(f"{LONG}\n\n- {LONG}\n1. {LONG}")
    assert max(len(line) for line in text.split("\n")) <= WIDTH
    assert text.split() == [*LONG.split(), "-", *LONG.split(), "1.", *LONG.split()]
    assert all(line.startswith(("word", "- ", "  word", "1. ", "   word", "")) for line in text.split("\n"))


@pytest.mark.parametrize("line", [f"| {LONG} |", f"# {LONG}", f"![{LONG}](picture.svg)", f"```\n{LONG}\n```"])
def test_what_is_no_prose_stays(line: str) -> None:
    assert wrapped(line) == line


def test_a_divided_page_stays() -> None:
    once = wrapped(f"- {LONG}")
    assert wrapped(once) == once
