"""Mean contexts of a workload against sums over every step of every request."""

from __future__ import annotations

import pytest

from simsys.build.contexts import Contexts
from simsys.serving.requests import RequestTable

LENGTHS = [(5, 3), (100, 40), (1, 200), (64, 1)]
CONTEXTS = Contexts(RequestTable([0.0] * 4, [p for p, _ in LENGTHS], [o for _, o in LENGTHS]))


def test_the_longest_context_is_that_of_a_prompt_with_its_answer() -> None:
    assert CONTEXTS.longest == 201


def test_the_mean_counts_every_step() -> None:
    steps = [prompt + step + 0.5 for prompt, output in LENGTHS for step in range(output)]
    assert CONTEXTS.mean_tokens == pytest.approx(sum(steps) / len(steps))


@pytest.mark.parametrize("window", [1, 16, 64, 200])
def test_a_window_holds_the_last_tokens(window: int) -> None:
    found = CONTEXTS.in_window(window)
    assert found is not None
    queries = [min(place, window) for prompt, output in LENGTHS for place in range(1, prompt + output + 1)]
    steps = [min(prompt + step, window) for prompt, output in LENGTHS for step in range(1, output + 1)]
    assert found.tokens_per_query == pytest.approx(sum(queries) / len(queries))
    assert found.tokens_held == pytest.approx(sum(steps) / len(steps))


def test_a_window_as_long_as_all_contexts_limits_nothing() -> None:
    assert CONTEXTS.in_window(201) is None
    assert CONTEXTS.in_window(200) is not None
