"""Older keys of the first design documents, with the current setting and the unit of each."""

from __future__ import annotations

from typing import Any

from simsys.config.base import invalid


def taken(data: dict[str, Any], alias: str, key: str) -> Any:
    """Remove and return the value of an alias; refuse an alias that is given together with its key."""
    value = data.pop(alias)
    if data.get(key) is not None:
        raise invalid(f"{alias} is another name of {key}; give one of them")
    return value


def quantity(value: Any, unit: str) -> str:
    """A bare number of an alias with the unit that the alias implies."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise invalid(f"a number is expected here (in {unit}), not {value!r}")
    return f"{value} {unit}"
