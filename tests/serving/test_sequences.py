"""How far each request has come."""

from __future__ import annotations

from simsys.serving.requests import RequestTable
from simsys.serving.sequences import Sequences


def sequences() -> Sequences:
    return Sequences(RequestTable([0.0, 1.0], [10, 3], [5, 1]))


def test_a_new_request_has_its_whole_prompt_to_compute() -> None:
    state = sequences()
    assert [state.remaining_prompt(request) for request in (0, 1)] == [10, 3]
    assert state.generated_tokens == [0, 0]


def test_computed_tokens_count_down_what_remains() -> None:
    state = sequences()
    state.computed_tokens[0] = 4
    assert (state.target_tokens(0), state.remaining_prompt(0)) == (10, 6)
    assert state.remaining_prompt(1) == 3, "requests are independent"


def test_after_a_preemption_the_generated_tokens_are_computed_again() -> None:
    state = sequences()
    state.generated_tokens[0], state.computed_tokens[0] = 2, 0
    assert (state.target_tokens(0), state.remaining_prompt(0)) == (12, 12)


def test_the_last_output_token_is_never_cached() -> None:
    state = sequences()
    assert [state.final_cache_tokens(request) for request in (0, 1)] == [14, 3]


def test_the_columns_of_the_table_are_not_copied_and_not_changed() -> None:
    table = RequestTable([0.0], [4], [2])
    first, second = Sequences(table), Sequences(table)
    first.computed_tokens[0] = 4
    assert first.prompt_tokens is table.prompt_tokens
    assert second.computed_tokens.tolist() == [0]
