"""The page of a validation: errors on measured runs, by what the rows have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simsys.html.blocks import Block, Figure, Figures, Page, Section, Table
from simsys.report.text import percent
from simsys.version import __version__

ERRORS = {
    "balanced_mape": "mean error, groups weighted equally",
    "mape": "mean error",
    "median_error": "median error",
    "p90_error": "p90 error",
    "bias": "bias",
    "coverage": "rows predicted",
}


def validation_page(found: Mapping[str, Any]) -> Page:
    """Lay out a validation, as ``simsys validate --json`` prints it."""
    parts = {name: part for name, part in found.items() if isinstance(part, Mapping)}
    warnings = [str(text) for text in found.get("warnings", ())]
    sections = [Section(name, list(_part(part))) for name, part in parts.items()]
    headline = "; ".join(
        f"{name}: {part['predicted']:,} of {part['rows']:,} rows, median error {percent(part['median_error'])}"
        for name, part in parts.items()
        if part.get("median_error") is not None
    )
    return Page("Validation", headline, warnings, sections, [f"simsys {__version__}"])


def _part(part: Mapping[str, Any]) -> Iterator[Block]:
    if figures := [Figure(text, percent(part[key])) for key, text in ERRORS.items() if part.get(key) is not None]:
        yield Figures([Figure("rows", f"{part.get('rows', 0):,}"), *figures])
    for name, groups in part.items():
        if not isinstance(groups, Mapping) or not all(isinstance(each, Mapping) for each in groups.values()):
            continue
        rows = [[group, each.get("rows"), *map(each.get, ERRORS)] for group, each in groups.items()]
        if rows:
            yield Table(name.replace("_", " "), ["group", "rows", *ERRORS.values()], rows, data=len(rows) > 60)
