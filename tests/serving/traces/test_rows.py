"""Single values of traces: what is read, and what is refused with which words."""

from __future__ import annotations

import pytest

from simsys.serving.traces.rows import BadRow, time_text, time_value, tokens_value


@pytest.mark.parametrize("text", ["0", "0.5", "1e3"])
def test_a_time_is_read(text: str) -> None:
    assert time_text("arrival")(text) == float(text)


@pytest.mark.parametrize(
    ("text", "problem"), [("-1", "below 0"), ("-0.5", "below 0"), ("nan", "no time"), ("1e300", "no time")]
)
def test_what_is_no_time_is_refused(text: str, problem: str) -> None:
    with pytest.raises(BadRow, match=problem):
        time_text("arrival")(text)


@pytest.mark.parametrize(
    ("value", "problem"), [(-0.5, "below 0"), (-1, "below 0"), (True, "no time"), ("1", "no time")]
)
def test_a_value_that_is_no_time_is_refused(value: object, problem: str) -> None:
    assert time_value("arrival", 0) == 0
    with pytest.raises(BadRow, match=problem):
        time_value("arrival", value)


@pytest.mark.parametrize(
    ("value", "problem", "said"),
    [
        (0, "of 0 or less", "0"),
        (-3, "of 0 or less", "-3"),
        (1.5, "whole number", "1.5"),
        ([1], "whole number", "a list"),
    ],
)
def test_a_value_that_is_no_number_of_tokens_is_refused_and_shown(value: object, problem: str, said: str) -> None:
    assert tokens_value("prompt tokens", 1) == 1
    with pytest.raises(BadRow, match=problem) as caught:
        tokens_value("prompt tokens", value)
    assert caught.value.found == said
