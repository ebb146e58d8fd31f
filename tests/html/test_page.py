"""The page: escaping, content-security policy, tables."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from simsys.errors import OutputError
from simsys.html.blocks import Figure, Figures, Items, Listing, Page, Picture, Section, Table
from simsys.html.page import SHOWN_ROWS, as_json, cell, render, write_page
from simsys.html.svg import Drawing

NASTY = "<script>alert(1)</script>\"'&"


class Reader(HTMLParser):
    """The elements of a page, and the text of those that are given."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.elements:
            self.texts.append((self.elements[-1][0], data))

    def text_of(self, tag: str) -> list[str]:
        return [text for name, text in self.texts if name == tag and text.strip()]


def nasty_page() -> Page:
    drawing = Drawing(100, 100, NASTY)
    drawing.text(1, 1, NASTY)
    drawing.rect(0, 0, 1, 1, "c0", NASTY)
    blocks = [
        Figures([Figure(NASTY, NASTY, NASTY)]),
        Table(NASTY, [NASTY, "n"], [[NASTY, place] for place in range(SHOWN_ROWS + 5)], data=True),
        Table(NASTY, [NASTY], [[NASTY]]),
        Picture(NASTY, str(drawing)),
        Items([NASTY], warning=True),
        Listing(NASTY, NASTY, folded=True),
        Listing(NASTY, NASTY),
    ]
    return Page(NASTY, NASTY, [NASTY], [Section(NASTY, blocks), Section("Empty", [])], [NASTY])


def test_values_stay_text() -> None:
    read = Reader(render(nasty_page()))
    assert [tag for tag, _ in read.elements].count("script") == 2  # the rows, and the page's own
    assert read.text_of("title")
    assert "".join(read.text_of("title")[:1]).startswith("<script>alert(1)")
    assert not any(name.startswith("on") for _, attributes in read.elements for name in attributes)


def test_nothing_is_loaded_and_only_the_own_script_runs() -> None:
    text = render(nasty_page())
    read = Reader(text)
    policy = next(each["content"] for tag, each in read.elements if tag == "meta" and "http-equiv" in each)
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    for tag in ("style", "script"):
        found = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert len(found) == 1
        digest = base64.b64encode(hashlib.sha256(found[0].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert not any({"style", "src"} & set(each) for _, each in read.elements)  # inline styles are refused, too
    assert not [each for tag, each in read.elements if tag == "link" or "://" in (each.get("href") or "")]


def test_long_tables_are_data() -> None:
    read = Reader(render(nasty_page()))
    data = json.loads(next(text for tag, text in read.texts if tag == "script" and text.startswith("[[")))
    assert len(data) == SHOWN_ROWS + 5
    assert data[0] == [NASTY, 0]


def test_data_cannot_end_its_element() -> None:
    text = as_json(Table("t", ["a"], [["</script><b>"], [float("nan")], [1 / 3], [None]]))
    assert "<" not in text
    assert json.loads(text) == [["</script><b>"], [None], [0.333333], [None]]


def test_empty_sections_are_left_out() -> None:
    assert "Empty" not in Reader(render(nasty_page())).text_of("h2")


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (True, "yes"), (1234567, "1,234,567"), (0.123456, "0.1235"), (12345.6, "12,346"), (2.0, "2"),
     (float("inf"), "–"), ("a", "a"), (0.0, "0")],
)  # fmt: skip
def test_cells(value: object, text: str) -> None:
    assert cell(value) == text


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    assert write_page(Page("t"), tmp_path / "a.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match="cannot write"):
        write_page(Page("t"), tmp_path / "file" / "a.html")
