"""Checked access to the values of a mapping from a JSON or YAML file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, overload

from simsys.errors import ConfigError, Problem, did_you_mean
from simsys.json_places import JsonPlaces, KeyPath

LARGEST = 1e100
"""Largest magnitude of a number; products of several such numbers are finite floats."""
MAX_INTEGER = 10**15
MAX_LAYERS = 10_000
"""Largest number of layers; a typing error gives a message instead of exhausting the memory."""


class Fields:
    """A mapping from a file with values checked on reading.

    A key whose value is ``null`` counts as absent. Every method raises ConfigError with the dotted place inside the
    document when a value is missing without a default, has the wrong type, or is out of range; with its line and
    column if the places of the document are known.

    Args:
        values: Contents of the file at this place; must be a mapping.
        path: Dotted place of `values` in the document.
        file: Name of the file, for messages.
        places: Where values stand in the document.
        keys: The place of `values` as keys and indexes.
    """

    def __init__(
        self,
        values: object,
        path: str = "",
        file: str = "",
        *,
        places: JsonPlaces | None = None,
        keys: KeyPath = (),
    ) -> None:
        self.path, self.file, self.places, self.keys = path, file, places, keys
        if not isinstance(values, Mapping):
            self.fail("", f"expected a mapping, got {shown(values)}")
        self.values: Mapping[str, Any] = values
        self.used: set[str] = set()
        """Keys that were read."""

    def __contains__(self, key: str) -> bool:
        self.used.add(key)
        return self.values.get(key) is not None

    def fail(self, key: str, message: str) -> NoReturn:
        """Raise ConfigError for `key` (empty: for the mapping itself)."""
        path = ".".join(part for part in (self.path, key) if part)
        place = () if self.places is None else self.places.find((*self.keys, *((key,) if key else ())))
        raise ConfigError([Problem(message, path, self.file, *place)])

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
            self.fail(key, f"expected a number, got {shown(value)}")
        if isinstance(value, int) and abs(value) > LARGEST:
            self.fail(key, f"expected a number of at most {LARGEST:g}, got one of {len(str(abs(value)))} digits")
        if not math.isfinite(value) or value < minimum:
            self.fail(key, f"expected a finite number >= {minimum:g}, got {value}")
        if value > LARGEST:
            self.fail(key, f"expected a number of at most {LARGEST:g}, got {value}")
        return float(value)

    def integer(self, key: str, default: int | None = None, *, minimum: int = 0, maximum: int = MAX_INTEGER) -> int:
        """Return an integer from `minimum` to `maximum`."""
        value = self.number(key, default, minimum=minimum)
        if value != int(value):
            self.fail(key, f"expected an integer, got {value}")
        if value > maximum:
            self.fail(key, f"must be at most {maximum:,}, not {shown(int(value))}")
        return int(value)

    @overload
    def text(self, key: str) -> str: ...
    @overload
    def text(self, key: str, default: str) -> str: ...
    def text(self, key: str, default: str | None = None) -> str:
        """Return a string; raises as described above."""
        value = self._get(key, default)
        if not isinstance(value, str):
            self.fail(key, f"expected a string, got {shown(value)}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false."""
        value = self._get(key, default)
        if not isinstance(value, bool):
            self.fail(key, f"expected true or false, got {shown(value)}")
        return value

    def texts(self, key: str) -> list[str]:
        """Return a list of strings; an empty one if the key is absent."""
        items = self.values.get(key) if key in self else []
        if not isinstance(items, (list, tuple)) or not all(isinstance(item, str) for item in items):
            self.fail(key, f"expected a list of strings, got {shown(items)}")
        return list(items)

    def integers(self, key: str) -> list[int]:
        """Return a list of integers; an empty one if the key is absent."""
        items = self.values.get(key) if key in self else []
        if not isinstance(items, (list, tuple)) or not all(type(item) is int for item in items):
            self.fail(key, f"expected a list of integers, got {shown(items)}")
        return list(items)

    def child(self, key: str) -> Fields:
        """Return the mapping below `key`."""
        self.require(key)
        return self._below(key, self.values[key])

    def children(self, key: str) -> list[Fields]:
        """Return the mappings in the list below `key`; it must not be empty."""
        items = self._get(key, None)
        if not isinstance(items, (list, tuple)) or not items:
            self.fail(key, f"expected a list that is not empty, got {shown(items)}")
        return [self._below(key, item, index) for index, item in enumerate(items)]

    def _below(self, key: str, values: object, *index: int) -> Fields:
        """Return the mapping below a key, or an item of the list below it."""
        path = (f"{self.path}.{key}" if self.path else key) + "".join(f"[{number}]" for number in index)
        return Fields(values, path, self.file, places=self.places, keys=(*self.keys, key, *index))

    def _get(self, key: str, default: object) -> Any:
        self.used.add(key)
        value = self.values.get(key)
        if value is None:
            value = default
        if value is None:
            self.fail("", f"missing {key}")
        return value


def shown(value: object) -> str:
    """Return a value for messages, shortened if it is long."""
    if isinstance(value, int) and abs(value) > LARGEST:
        return f"a number of {len(str(abs(value)))} digits"
    text = f"{value:,}" if type(value) is int else repr(value)
    return text if len(text) <= 40 else f"{type(value).__name__} {text[:36]}…"
