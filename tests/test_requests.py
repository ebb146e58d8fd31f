from __future__ import annotations

import math

import pytest

from simsys.errors import UsageError
from simsys.serving.requests import RequestTable


def test_figures_of_a_table() -> None:
    table = RequestTable([1.0, 2.0, 5.0], [10, 20, 60], [1, 2, 3])
    assert len(table) == 3
    assert table.span_s == 4.0
    assert table.mean_rate_per_s == 0.5
    assert table.mean_prompt_tokens == 30.0
    assert table.mean_output_tokens == 2.0
    assert table.gap_cv == 0.5  # gaps 1 and 3


@pytest.mark.parametrize("times", [[], [3.0], [3.0, 3.0]])
def test_a_table_without_a_span_has_no_rate(times: list[float]) -> None:
    table = RequestTable(times, [1] * len(times), [1] * len(times))
    assert (table.span_s, table.mean_rate_per_s, table.gap_cv) == (0.0, None, None)


def test_an_empty_table_has_zero_means() -> None:
    table = RequestTable([], [], [])
    assert (len(table), table.mean_prompt_tokens, table.mean_output_tokens) == (0, 0.0, 0.0)


@pytest.mark.parametrize(
    "times", [[1.0, 0.5], [-1.0, 0.0], [math.nan], [0.0, math.nan], [math.nan, 1.0], [0.0, math.inf], [math.inf]]
)
def test_impossible_times_are_refused(times: list[float]) -> None:
    with pytest.raises(UsageError, match="arrival_s must"):
        RequestTable(times, [1] * len(times), [1] * len(times))


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(UsageError, match="2 arrival_s, 2 prompt_tokens, 1 output_tokens"):
        RequestTable([0.0, 1.0], [1, 1], [1])


@pytest.mark.parametrize(("prompts", "outputs", "name"), [([0], [1], "prompt_tokens"), ([1], [-5], "output_tokens")])
def test_requests_without_tokens_are_refused(prompts: list[int], outputs: list[int], name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} must be at least 1"):
        RequestTable([0.0], prompts, outputs)
