"""Results as notebooks show them: one line, and the first rows of a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas

ROWS = 12
"""Rows that a notebook shows."""


class Shown(ABC):
    """Base of results that have a table."""

    @abstractmethod
    def table(self) -> pandas.DataFrame:
        """The result as a pandas table."""

    def shown(self) -> pandas.DataFrame:
        """The table of which notebooks show the first rows."""
        return self.table()

    def _repr_html_(self) -> str:
        """For notebooks: the line that Python prints, and the first rows."""
        frame = self.shown()
        rest = len(frame) - ROWS
        more = f"<p>… {rest:,} more rows</p>" if rest > 0 else ""
        return f"<p>{escape(repr(self))}</p>{frame.head(ROWS).to_html(index=False, border=0)}{more}"
