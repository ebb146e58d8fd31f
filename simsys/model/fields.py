"""Checked values out of a mapping that somebody wrote in a JSON or YAML file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, overload

from simsys.errors import ConfigError, Problem, did_you_mean


class Fields:
    """A mapping from a file whose values are checked as they are read.

    A key whose value is ``null`` counts as absent. Every method raises ConfigError with the dotted place inside the
    document when a value is missing without a default, has the wrong type, or is out of range.

    Args:
        values: What the file holds at this place; must be a mapping.
        path: Dotted place of `values` in the document.
        file: Name of the file, for messages.
    """

    def __init__(self, values: object, path: str = "", file: str = "") -> None:
        self.path, self.file = path, file
        if not isinstance(values, Mapping):
            self.fail("", f"expected a mapping, got {_shown(values)}")
        self.values: Mapping[str, Any] = values

    def __contains__(self, key: str) -> bool:
        return self.values.get(key) is not None

    def fail(self, key: str, message: str) -> NoReturn:
        """Raise ConfigError for `key` (empty: for the mapping itself)."""
        raise ConfigError([Problem(message, path=".".join(p for p in (self.path, key) if p), file=self.file)])

    def require(self, *keys: str) -> None:
        """Check that all `keys` are present; the message names every one that is not."""
        if missing := [key for key in keys if key not in self]:
            self.fail("", f"missing {', '.join(missing)}")

    def reject_unknown(self, known: Iterable[str]) -> None:
        """Check that there is no key outside `known`."""
        allowed = set(known)
        for key in self.values:
            if key not in allowed:
                self.fail(str(key), f"unknown key{did_you_mean(key, allowed)}")

    def number(self, key: str, default: float | None = None, *, minimum: float = 0.0) -> float:
        """Return a finite number >= `minimum`."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.fail(key, f"expected a number, got {_shown(value)}")
        if not math.isfinite(value) or value < minimum:
            self.fail(key, f"expected a finite number >= {minimum:g}, got {value}")
        return float(value)

    def integer(self, key: str, default: int | None = None, *, minimum: int = 0) -> int:
        """Return an integer >= `minimum`."""
        value = self.number(key, default, minimum=minimum)
        if value != int(value):
            self.fail(key, f"expected an integer, got {value}")
        return int(value)

    @overload
    def text(self, key: str) -> str: ...
    @overload
    def text(self, key: str, default: str) -> str: ...
    def text(self, key: str, default: str | None = None) -> str:
        """Return a string."""
        value = self._get(key, default)
        if not isinstance(value, str):
            self.fail(key, f"expected a string, got {_shown(value)}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false."""
        value = self._get(key, default)
        if not isinstance(value, bool):
            self.fail(key, f"expected true or false, got {_shown(value)}")
        return value

    def child(self, key: str) -> Fields:
        """Return the mapping below `key`."""
        self.require(key)
        return Fields(self.values[key], f"{self.path}.{key}" if self.path else key, self.file)

    def children(self, key: str) -> list[Fields]:
        """Return the mappings in the list below `key`; it must not be empty."""
        items = self._get(key, None)
        if not isinstance(items, (list, tuple)) or not items:
            self.fail(key, f"expected a list that is not empty, got {_shown(items)}")
        prefix = f"{self.path}.{key}" if self.path else key
        return [Fields(item, f"{prefix}[{index}]", self.file) for index, item in enumerate(items)]

    def _get(self, key: str, default: object) -> Any:
        value = self.values.get(key)
        if value is None:
            value = default
        if value is None:
            self.fail("", f"missing {key}")
        return value


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{type(value).__name__} {text[:36]}…"
