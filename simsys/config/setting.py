"""Changes one setting of a scenario before validation."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from simsys.config.document import KeyPath
from simsys.config.validation import dotted
from simsys.errors import UsageError

PROFILES = (("hardware", "gpu"), ("hardware", "gpu_model"), ("hardware", "profile"), ("hardware", "fabric"))
"""Settings that name a profile or contain one; a contained profile may extend another by name."""


_ABSENT = object()


def with_setting(data: Mapping[str, Any], path: KeyPath, value: Any, written: str) -> dict[str, Any]:
    """Return data with one setting changed. Mappings and lists on its way are copied, everything else is shared.

    Args:
        data: A scenario's settings; not changed.
        path: Its path; an index selects an entry of a list.
        value: Its new value.
        written: The name of the change in messages, such as ``--set a.b=1``.

    Raises:
        UsageError: If the path goes through a value that is no mapping, or an entry that a list does not have.
    """
    changed = dict(data)
    inner: Any = changed
    for depth, (key, after) in enumerate(pairwise(path), start=1):
        part = _entry(inner, key, path[:depth], written)
        if path[:depth] in PROFILES and isinstance(part, str):
            part = {"extends": part}
        if isinstance(after, int) if part is None else not isinstance(part, list if isinstance(after, int) else dict):
            raise UsageError(f"{written}: {dotted(path[:depth])!r} is a value and has no keys")
        part = part.copy() if part is not None else {}
        if path[:2] == ("hardware", "gpu") and depth == 1 and "gpu" not in part and "gpu_model" in part:
            part["gpu"] = part.pop("gpu_model")  # the older name
        inner[key] = part
        inner = part
    _entry(inner, path[-1], path, written)
    inner[path[-1]] = value
    return changed


def _entry(inner: dict[str, Any] | list[Any], key: str | int, path: KeyPath, written: str) -> Any:
    """A value of a mapping, None if it has no such key; or of a list, which must have it."""
    if isinstance(inner, dict):
        return inner.get(str(key))
    if not isinstance(key, int) or key >= len(inner):
        raise UsageError(f"{written}: there is no {dotted(path)!r}, the list has {len(inner)} entries")
    return inner[key]


def value_at(data: object, path: KeyPath, absent: Any = None) -> Any:
    """The value of nested mappings and lists at a path of keys and indices; `absent` if there is none."""
    inner: Any = data
    for key in path:
        try:
            inner = inner[key]
        except (KeyError, IndexError, TypeError):
            return absent
    return inner


def has_setting(data: object, path: KeyPath) -> bool:
    """Whether nested mappings and lists have a value at a path, also an empty one."""
    return value_at(data, path, _ABSENT) is not _ABSENT
