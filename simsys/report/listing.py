"""Tables and facts as text of at most 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from simsys.model.description import parameter_count
from simsys.report.text_table import text_table
from simsys.report.yaml_text import flow_text, yaml_text
from simsys.units import GIB, MIB, Dimension, pretty, pretty_memory

WIDTH = 80
SCREEN = 40
"""Lines of facts that are written as they are."""
COUNTED = {"fits", "sources"}
HEADINGS = {"parameters": "params", "active_parameters": "active"}
"""Headings that are shorter than their key, so that the table of models has 80 columns."""
MOST_LINES, MOST_KEYS = 6, 12
"""Of an outline: parts that are never written, and of the others, lines, and keys that are named."""
UNITS = {
    "_bytes_per_s": Dimension.BYTES_PER_SECOND,
    "_flop_per_s": Dimension.FLOP_PER_SECOND,
    "_bytes": Dimension.BYTES,
    "_watts": Dimension.WATTS,
    "_s": Dimension.SECONDS,
}
"""Dimension of a value by the suffix of its key."""


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows with equal keys as a text table with headings; the last column is wrapped."""
    cells = [[HEADINGS.get(key, _name(key).replace("_", " ")) for key in rows[0]]] if rows else []
    cells += [[_cell(key, value) for key, value in row.items()] for row in rows]
    return "\n".join(text_table(cells, WIDTH))


def tables(rows: Sequence[Mapping[str, Any]], by: str = "of") -> str:
    """Rows as one table, or as one table per value of the key `by`."""
    if not rows or by not in rows[0]:
        return table(rows)
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row[by], []).append({key: value for key, value in row.items() if key != by})
    return "\n\n".join(f"{name}\n\n{table(own)}" for name, own in groups.items())


def description(facts: Mapping[str, Any]) -> str:
    """Facts as YAML, with units for people."""
    return yaml_text(_readable(facts)).rstrip("\n")


def outline(facts: Mapping[str, Any]) -> tuple[str, bool]:
    """Facts as YAML on one screen, and whether long parts of them are counted instead of written."""
    whole = description(facts)
    if whole.count("\n") < SCREEN:
        return whole, False
    lines, short = [], False
    for key, value in facts.items():
        text = description({key: value})
        if isinstance(value, Mapping | list):
            text = _wrapped(flow_text(_readable({key: value})))
            if key in COUNTED or text.count("\n") >= MOST_LINES:
                text, short = _wrapped(f"{_name(key)}: {_counted(value)}"), True
        lines.append(text)
    return "\n".join(lines), short


def _wrapped(text: str) -> str:
    """Text in lines that end after commas."""
    kept = text.replace(" ", "\N{NO-BREAK SPACE}").replace(",\N{NO-BREAK SPACE}", ", ")
    lines = textwrap.wrap(kept, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\N{NO-BREAK SPACE}", " ")


def _counted(value: Mapping[str, Any] | Sequence[Any]) -> str:
    """How many values there are, and the keys above them."""
    keys = [str(key) for key in value] if isinstance(value, Mapping) else []
    shown = f": {', '.join(keys)}" if 0 < len(keys) <= MOST_KEYS else ""
    return f"{_leaves(value):,} values{shown}"


def _leaves(value: Any) -> int:
    if isinstance(value, Mapping):
        return sum(map(_leaves, value.values()))
    return sum(map(_leaves, value)) if isinstance(value, list) else 1


def _readable(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        _name(key): _readable(value) if isinstance(value, Mapping) else _cell(key, value) if _unit(key) else value
        for key, value in facts.items()
    }


def _unit(key: str) -> str:
    return next((ending for ending in UNITS if key.endswith(ending)), "")


def _name(key: str) -> str:
    return key.removesuffix(_unit(key))


def _cell(key: str, value: Any) -> str:
    if value is None:
        return "-"
    unit = _unit(key)
    if unit == "_bytes":
        return f"{value / GIB:g} GiB" if value >= GIB and value % MIB == 0 else pretty_memory(value)
    if unit:
        return pretty(value, UNITS[unit])
    return parameter_count(value) if key.endswith("parameters") else str(value)
