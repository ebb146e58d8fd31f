"""Renders a page into one HTML file that needs no network and runs no code but its own."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simsys.html.blocks import Page, Section, Table
from simsys.report.files import write_files

if TYPE_CHECKING:
    from jinja2 import Template

SHOWN_ROWS = 25
"""Rows of a long table that are visible at once."""


def render(page: Page) -> str:
    """The HTML of a page.

    Every value is escaped. The content-security policy names the hashes of the page's own script and style; nothing
    else is loaded or executed (W3C, Content Security Policy Level 3).
    """
    style, script = _asset("page.css"), _asset("page.js")
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'"
    sections = [section for section in page.sections if section.blocks]
    return _template().render(
        page=page, sections=list(enumerate(sections, 1)), style=style, script=script, policy=policy
    )


def write_page(page: Page, path: Path) -> Path:
    """Write a page whole or not at all.

    Raises:
        OutputError: If it cannot be written.
    """
    text = render(page)
    return write_files(path.parent, {path.name: lambda file: file.write(text)})[0]


def cell(value: Any) -> str:
    """The text of a table's cell: numbers with four significant digits, a dash for none.

    Example:
        >>> cell(1234567), cell(0.123456), cell(None), cell(1.5e-9)
        ('1,234,567', '0.1235', '–', '1.5e-09')
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if value == int(value) and abs(value) < 1e15:
            return f"{int(value):,}"
        return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"
    return str(value)


def is_numeric(rows: Sequence[Sequence[Any]], column: int) -> bool:
    """Whether a column holds numbers alone."""
    values = [row[column] for row in rows if row[column] is not None]
    return bool(values) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def as_json(table: Table) -> str:
    """The rows as JSON that cannot end the element in which it stands."""
    rows = [[_short(value) for value in row] for row in table.rows]
    text = json.dumps(rows, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _short(value: Any) -> Any:
    """A number with six significant digits, since a page has many."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


@cache
def _asset(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.globals.update(cell=cell, is_numeric=is_numeric, as_json=as_json, shown=SHOWN_ROWS, anchor=_anchor)
    return environment.from_string(_asset("page.html"))


def _anchor(number: int, section: Section) -> str:
    return f"s{number}-{section.anchor}"
