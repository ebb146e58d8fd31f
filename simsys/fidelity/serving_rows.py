"""Rows of measured serving runs."""

from __future__ import annotations

from simsys.fidelity.case import Case
from simsys.fidelity.table import Table

COLUMNS = ("id", "engine", "load_kind", "metric", "value")


def cases(table: Table) -> list[Case]:
    """The cases of a table."""
    return []
