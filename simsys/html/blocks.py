"""What a page consists of: sections of figures, pictures, tables, lists and listings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Figure:
    """A number that answers a question.

    Args:
        label: Its name.
        value: The number with its unit.
        note: The error to expect, or what else to know about it.
    """

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Figures:
    """Numbers beside each other."""

    figures: Sequence[Figure]
    kind: str = "figures"


@dataclass(frozen=True)
class Table:
    """A table that can be sorted and filtered.

    Args:
        caption: What it shows.
        columns: Names of the columns, with units.
        rows: Cells: numbers, texts or None.
        data: True if it has too many rows to show: the page then shows some rows at a time.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    data: bool = False
    kind: str = "table"


@dataclass(frozen=True)
class Picture:
    """A drawing.

    Args:
        caption: What it shows.
        svg: The drawing as SVG; its texts are escaped already.
    """

    caption: str
    svg: str
    kind: str = "picture"


@dataclass(frozen=True)
class Items:
    """A list of sentences.

    Args:
        items: The sentences.
        warning: True if they make the figures doubtful.
    """

    items: Sequence[str]
    warning: bool = False
    kind: str = "items"


@dataclass(frozen=True)
class Listing:
    """Text in a fixed width, such as a command or a file.

    Args:
        caption: What it is.
        text: The text.
        folded: True if the page shows it on demand only.
    """

    caption: str
    text: str
    folded: bool = False
    kind: str = "listing"


Block: TypeAlias = Figures | Table | Picture | Items | Listing


@dataclass(frozen=True)
class Section:
    """Blocks under a heading.

    Args:
        heading: The heading.
        blocks: The blocks; a section without any is not shown.
        level: 2, or 3 for a section within the one before it.
    """

    heading: str
    blocks: Sequence[Block]
    level: int = 2

    @property
    def anchor(self) -> str:
        """The place of the section within the page, without its number."""
        return re.sub(r"[^a-z0-9]+", "-", self.heading.lower()).strip("-")


@dataclass(frozen=True)
class Page:
    """A whole page.

    Args:
        title: The subject.
        headline: The answer, in a sentence.
        warnings: What makes the answer doubtful.
        sections: The sections.
        footer: Versions and origin.
    """

    title: str
    headline: str = ""
    warnings: Sequence[str] = ()
    sections: Sequence[Section] = ()
    footer: Sequence[str] = field(default=())
