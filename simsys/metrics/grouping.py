"""Small parts that are looked at together, since a call of numpy costs as much as a thousand numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Part = TypeVar("Part")


def grouped(parts: Iterable[Part], size: Callable[[Part], int], most: int) -> Iterator[list[Part]]:
    """Lists of successive parts whose sizes together are at most `most`, or of a single larger part.

    Example:
        >>> list(grouped(["a", "bcd", "ef", "g"], len, 3))
        [['a'], ['bcd'], ['ef', 'g']]
    """
    group, total = list[Part](), 0
    for part in parts:
        if group and total + size(part) > most:
            yield group
            group, total = [], 0
        group.append(part)
        total += size(part)
    if group:
        yield group
