from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simsys.serving.traces.columns import columns, times_column, timestamps_column, tokens_column
from simsys.serving.traces.csv_formats import CSV_FORMATS
from simsys.serving.traces.rows import BadRow, time_text, tokens_text
from tests.helpers.thorough import cases

(AZURE,) = (known for known in CSV_FORMATS if known.name == "azure")
Column = Callable[[Sequence[str]], list[Any]]

TOKENS = st.one_of(st.integers(-2, 2000).map(str), st.sampled_from(["", " 3", "1_0", "٣", "²", "3.0", "1000000000"]))
TIMES = st.one_of(st.floats().map(str), st.sampled_from(["", " 3", "1_0", "٣", "x", "1e30", "1e31", "-0"]))
STAMPS = st.builds(
    "{}-{:02}-{:02}{}{:02}:{:02}:{:02}{}{}".format,
    st.sampled_from(["0000", "0001", "1969", "2023", "2024", "9999", "99999"]),
    st.integers(0, 13),
    st.integers(0, 32),
    st.sampled_from([" ", "T", "t"]),
    st.integers(0, 25),
    st.integers(0, 61),
    st.integers(0, 61),
    st.sampled_from(["", ".", ".5", ".9799600", ".000000001", ".0000000001"]),
    st.sampled_from(["", "Z", "+00:00", "+01:00", "-12:30"]),
)


def one_by_one(read: Callable[[str], Any], texts: Sequence[str]) -> list[Any] | None:
    """What a reader of single texts says of several; None if one of them is none."""
    try:
        return [read(text.strip()) for text in texts]
    except BadRow:
        return None


@pytest.mark.parametrize(
    ("column", "read", "texts"),
    [
        (tokens_column, tokens_text("n"), TOKENS),
        (times_column, time_text("t"), TIMES),
        (timestamps_column, AZURE.read_time("t"), STAMPS),
    ],
)
@settings(max_examples=cases(200), deadline=None)
@given(data=st.data())
def test_a_column_is_read_as_its_texts_or_not_at_all(
    column: Column, read: Callable[[str], Any], texts: st.SearchStrategy[str], data: st.DataObject
) -> None:
    found = data.draw(st.lists(texts, min_size=1, max_size=3))
    expected = one_by_one(read, found)
    try:
        values = column(found)
    except ValueError:
        return
    assert values == expected
    assert list(map(type, values)) == list(map(type, expected or []))


@pytest.mark.parametrize(
    ("column", "texts", "values"),
    [
        (tokens_column, ["1", "007"], [1, 7]),
        (times_column, ["1", "2.5"], [1.0, 2.5]),
        (timestamps_column, ["1970-01-01 00:00:01.5", "1970-01-01 00:00:02.0"], [1_500_000_000, 2_000_000_000]),
        (timestamps_column, ["1970-01-01T00:01:00+00:00"], [60_000_000_000]),
    ],
)
def test_plain_columns_are_read(column: Column, texts: list[str], values: list[float]) -> None:
    assert column(texts) == values


def test_times_at_which_shapes_meet_by_chance_are_not_read() -> None:
    with pytest.raises(ValueError, match="differently"):
        timestamps_column(["2023-11-16 18:17:03.97", "2023-11-16 18:17:03.9", "72023-11-16 18:17:03.97"])


def test_lines_are_split_whatever_their_ends() -> None:
    assert columns(["1,2\r\n", "3,4\n", "5,6"]) == [("1", "3", "5"), ("2", "4", "6")]


@pytest.mark.parametrize("lines", [["1,2\n", "3\n"], ['"1",2\n']])
def test_lines_that_are_not_plain_are_not_split(lines: list[str]) -> None:
    with pytest.raises(ValueError, match=r"quote|argument"):
        columns(lines)
