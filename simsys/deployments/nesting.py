"""Nested mappings, as in YAML and JSON files, as flat ones with dotted names, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted names as mappings in mappings.

    Example:
        >>> nested({"cache.dtype": "fp8", "cache.reuse": False, "tokens": 5})
        {'cache': {'dtype': 'fp8', 'reuse': False}, 'tokens': 5}
    """
    found: dict[str, Any] = {}
    for path, value in flat.items():
        *parents, name = path.split(".")
        inner = found
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[name] = value
    return found


def flat(data: Mapping[str, Any]) -> dict[str, Any]:
    """Mappings in mappings as dotted names.

    Example:
        >>> flat({"cache": {"dtype": "fp8", "reuse": False}, "tokens": 5})
        {'cache.dtype': 'fp8', 'cache.reuse': False, 'tokens': 5}
    """
    return dict(_flat(data, ""))


def _flat(data: Mapping[str, Any], before: str) -> Iterator[tuple[str, Any]]:
    for name, value in data.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value
