"""Docstrings, messages and pages are plain technical English: some words are refused, each with a better one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
PACKAGES = [
    path.parent for path in [*sorted((ROOT / "simsys").glob("*/__init__.py")), ROOT / "frameworks" / "__init__.py"]
]
REFUSED = {
    r"nobody|somebody|everybody|anybody|whoever": "name the rank, request or user",
    r"told|tells?|telling": "reported, notified, distinguished, determines",
    r"besides": "in addition to, other than, also",
    r"likewise": "name it again",
    r"as far as": "if, where, the known part of",
    r"so many": "a number of, this number of",
    r"(go|goes|went|gone) on": "continue, overlap with",
    r"half within|nine (of|in) ten": "median, p90",
    r"(that|those) of (that|those)": "name the noun",
}
"""What a text must not say, as a regular expression of whole words, and what to say instead."""
_REFUSED = re.compile(rf"\b({'|'.join(REFUSED)})\b", re.IGNORECASE)
_CODE = re.compile(r"``[^`]*``|`[^`]*`|^ *\w+: |>>>.*$", re.MULTILINE)
"""Names of code, of arguments in a docstring, and examples are no prose."""


def texts_of(source: str) -> Iterator[tuple[int, str]]:
    """Docstrings, messages and descriptions of constants: all strings of a module with more than one word."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value


def prose_of(page: str) -> str:
    """A page without its code."""
    return re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL)


def refused(text: str) -> list[str]:
    """The words of a text that are refused, with what to say instead."""
    return [f"{found[0]!r}: {_advice(found[0])}" for found in _REFUSED.finditer(_CODE.sub("", text))]


def _advice(word: str) -> str:
    return next(advice for pattern, advice in REFUSED.items() if re.fullmatch(pattern, word, re.IGNORECASE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_says_nothing_that_is_refused(page: Path) -> None:
    assert refused(prose_of(page.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_a_package_says_nothing_that_is_refused(package: Path) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word}"
        for path in sorted(package.rglob("*.py"))
        for line, text in texts_of(path.read_text(encoding="utf-8"))
        for word in refused(text)
    ]
    assert found == []


def test_modules_of_simsys_itself_say_nothing_that_is_refused() -> None:
    found = [
        f"{path.name}:{line}: {word}"
        for path in sorted((ROOT / "simsys").glob("*.py"))
        for line, text in texts_of(path.read_text(encoding="utf-8"))
        for word in refused(text)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Nobody uses the link.", "Nobody"),
        ("The probes are told of it.", "told"),
        ("half within 6 %, nine of ten within 21 %", "half within"),
        ("Blocks of so many tokens.", "so many"),
        ("The rates of those of that group.", "those of that"),
    ],
)
def test_a_refused_word_is_found(text: str, word: str) -> None:
    assert word in refused(text)[0]


@pytest.mark.parametrize(
    "text", ["`tell` is called.", "    tell: Called with it.", ">>> told = 3", "A foretold goal."]
)
def test_names_of_code_are_no_words(text: str) -> None:
    assert refused(text) == []
