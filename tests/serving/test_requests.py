from __future__ import annotations

import math
import re
from typing import Any

import pytest

from simsys.errors import UsageError
from simsys.serving.requests import OPTIONAL_COLUMNS, RequestTable
from simsys.units import LONGEST_S


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


def test_times_beyond_what_can_be_simulated_are_refused() -> None:
    assert len(RequestTable([0.0, LONGEST_S], [1, 1], [1, 1])) == 2
    with pytest.raises(UsageError, match=r"requests arrive for 2e\+10 s, at most 1e\+10 s \(300 years\)"):
        RequestTable([0.0, 2 * LONGEST_S], [1, 1], [1, 1])


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(UsageError, match="2 arrival_s, 2 prompt_tokens, 1 output_tokens"):
        RequestTable([0.0, 1.0], [1, 1], [1])


@pytest.mark.parametrize(("prompts", "outputs", "name"), [([0], [1], "prompt_tokens"), ([1], [-5], "output_tokens")])
def test_requests_without_tokens_are_refused(prompts: list[int], outputs: list[int], name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} must be at least 1"):
        RequestTable([0.0], prompts, outputs)


def test_optional_columns_are_empty_unless_given() -> None:
    table = RequestTable([0.0], [1], [1])
    assert all(getattr(table, name) == [] for name in OPTIONAL_COLUMNS)
    assert (table.hash_block_tokens, table.concurrency, table.tenant_names, table.notes) == (0, 0, (), ())


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"priority": [1]}, "priority must be empty or have 2 rows, not 1"),
        ({"after": [-1, 1]}, "after must be -1 or an earlier request, not 1 for request 1"),
        ({"after": [-2, -1]}, "after must be -1 or an earlier request, not -2 for request 0"),
        ({"think_s": [0.0, -1.0]}, "think_s must be finite and >= 0"),
        ({"think_s": [0.0, math.nan]}, "think_s must be finite and >= 0"),
        ({"think_s": [math.inf, 0.0]}, "think_s must be finite and >= 0"),
        ({"tenant": [0, -1]}, "tenant must be 0 or more"),
        ({"tenant": [0, 1], "tenant_names": ("a",)}, "tenant 1 has no name; there are 1"),
        ({"hash_ids": [(1,), ()]}, "hash_block_tokens must be at least 1 with hash_ids, not 0"),
        ({"hash_ids": [(), (1, 2, 3)], "hash_block_tokens": 16}, "request 1 has 3 hash_ids of 16 tokens, more than"),
        ({"concurrency": -1}, "concurrency must be 0"),
    ],
)
def test_optional_columns_that_make_no_sense_are_refused(columns: dict[str, Any], expected: str) -> None:
    with pytest.raises(UsageError, match=re.escape(expected)):
        RequestTable([0.0, 1.0], [32, 32], [1, 1], **columns)


def test_conversations_whose_think_times_exceed_the_clock_are_refused() -> None:
    """At 1e15 s a float has no room for a step, and requests would take no time."""
    turns = [[0.0] * 4, [10] * 4, [2] * 4]
    links = {"session": [0, 0, 1, 1], "turn": [0, 1, 0, 1], "after": [-1, 0, -1, 2]}
    short = RequestTable(*turns, **links, think_s=[0.0, 0.6 * LONGEST_S, 0.0, 0.6 * LONGEST_S])
    assert max(short.think_s) == 0.6 * LONGEST_S, "each conversation is in time, although both together are not"
    chain = {"session": [0] * 4, "turn": [0, 1, 2, 3], "after": [-1, 0, 1, 2]}
    with pytest.raises(UsageError, match=r"think times, conversations last for 1\.2e\+10 s, at most 1e\+10 s"):
        RequestTable(*turns, **chain, think_s=[0.0, 0.6 * LONGEST_S, 0.6 * LONGEST_S, 0.0])
