"""Places in JSON: every value is found where it begins, whatever stands around it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.input_files import without_comments
from simsys.json_places import JsonPlaces, KeyPath

DOCUMENT = """\
{
  "Llama-3.1": {"layers": [
    {"name": "a, [b]: {c}"},   // a comment: { "x": [
    {"name": "d\\\"", "repeat": 2}
  ]},
\t"empty": {}
}
"""


def paths(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    yield path, value
    if isinstance(value, dict):
        for key, item in value.items():
            yield from paths(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from paths(item, (*path, index))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(values, st.sampled_from([None, 1]), st.booleans())
def test_every_value_begins_at_its_place(document: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    places, lines = JsonPlaces(text), text.split("\n")
    for path, value in paths(document):
        place = places.find(path)
        rest = "\n".join([lines[place.line - 1][place.column - 1 :], *lines[place.line :]])
        assert json.JSONDecoder().raw_decode(rest)[0] == value


@pytest.mark.parametrize(
    ("path", "line", "column"),
    [
        (("Llama-3.1", "layers", 0, "name"), 3, 14),
        (("Llama-3.1", "layers", 1, "repeat"), 4, 31),
        (("Llama-3.1", "layers", 1, "missing"), 4, 5),
        (("Llama-3.1", "missing", 3), 2, 3),
        (("empty", "missing"), 6, 2),
        (("missing",), 1, 1),
        ((), 1, 1),
    ],
)
def test_what_is_missing_is_at_the_key_around_it(path: KeyPath, line: int, column: int) -> None:
    assert JsonPlaces(without_comments(DOCUMENT)).find(path)[:2] == (line, column)


def test_a_place_has_its_line_unless_that_is_long() -> None:
    assert JsonPlaces(without_comments(DOCUMENT)).find(("empty",)).source == ' "empty": {}'
    assert JsonPlaces(json.dumps({"a": "b" * 300})).find(("a",)).source == ""
