"""Keys of the first design documents that stand for settings of today, with the unit that they imply."""

from __future__ import annotations

from typing import Any

from simsys.config.base import invalid


def taken(data: dict[str, Any], alias: str, key: str) -> Any:
    """Remove and return an alias' value; refuse it beside the key that it stands for."""
    value = data.pop(alias)
    if data.get(key) is not None:
        raise invalid(f"{alias} is another name of {key}; give one of them")
    return value


def quantity(value: Any, unit: str) -> str:
    """A bare number of an alias with the unit that the alias implies."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise invalid(f"a number is expected here (in {unit}), not {value!r}")
    return f"{value} {unit}"
