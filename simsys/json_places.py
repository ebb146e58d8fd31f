"""Where keys and values stand in a JSON document, so that an error can point at its line."""

from __future__ import annotations

import json
import re
from functools import cached_property
from typing import NamedTuple

KeyPath = tuple[str | int, ...]
"""A place inside a document: keys of mappings and indexes of lists, from the root."""

LONGEST_LINE = 200
"""Characters of a line that messages show; of a longer one, they show none."""
_TOKENS = re.compile(r'[{}\[\],:]|"(?:[^"\\]|\\.)*"|[^\s{}\[\],:"]+')


class Place(NamedTuple):
    """A place in a text.

    Args:
        line: Counted from 1.
        column: Counted from 1.
        source: The line's text; empty if it is too long to be shown.
    """

    line: int
    column: int
    source: str


class JsonPlaces:
    """The places of a document that was parsed before.

    Args:
        text: The document as JSON, without comments.

    Example:
        >>> JsonPlaces('{"a": [1, 2]}').find(("a", 1))
        Place(line=1, column=11, source='{"a": [1, 2]}')
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def find(self, path: KeyPath) -> Place:
        """Return the place of a value; if there is none, that of the key of the nearest mapping or list around it."""
        around = path
        while around not in self._indexes:
            around = around[:-1]
        index = self._indexes[around][around == path]
        begin, end = self.text.rfind("\n", 0, index) + 1, self.text.find("\n", index)
        source = self.text[begin : len(self.text) if end < 0 else end].replace("\t", " ")
        line = self.text.count("\n", 0, index) + 1
        return Place(line, index - begin + 1, source if len(source) <= LONGEST_LINE else "")

    @cached_property
    def _indexes(self) -> dict[KeyPath, tuple[int, int]]:
        """Where the key and the value of each path begin; an item of a list is its own key."""
        found: dict[KeyPath, tuple[int, int]] = {}
        path: list[str | int | None] = []  # of the value that comes next; None where a key comes first
        begins = 0
        for token in _TOKENS.finditer(self.text):
            symbol, index = token[0], token.start()
            if symbol in "}]":
                path.pop()
            elif symbol == ",":
                item = path[-1]
                path[-1] = item + 1 if isinstance(item, int) else None
            elif path and path[-1] is None:
                path[-1], begins = json.loads(symbol), index
            elif symbol != ":":
                key = begins if path and isinstance(path[-1], str) else index
                found[tuple(part for part in path if part is not None)] = key, index
                if symbol in "{[":
                    path.append(None if symbol == "{" else 0)
        return found
