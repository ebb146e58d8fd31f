"""The answer of a search as text: the greatest rate with its bracket."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.report.search import search_text
from simsys.searches.goal import Goal
from simsys.searches.result import Answer, SearchResult


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        (7.4, "greatest rate: 7.25 req/s (7.254–7.4), steady"),
        (None, "greatest rate: 7.25 req/s, steady, and no rate misses the SLO"),
    ],
)
def test_the_greatest_rate_has_its_bracket(missing: float | None, expected: str) -> None:
    metrics = {"goodput": 7.254, "goodput_missing": missing, "goodput_unit": "req/s"}
    answer = Answer({"serving.max_num_seqs": 64}, metrics, 7.254)
    text = search_text(_found(answer))
    assert expected in text.splitlines()


def test_the_goodput_of_training_has_none() -> None:
    answer = Answer({"parallelism.tp_degree": 2}, {"goodput": 0.9}, 0.9)
    assert "greatest rate" not in search_text(_found(answer))


def _found(answer: Answer) -> SearchResult:
    facts: dict[str, Any] = {"considered": 1, "pruned": 0, "simulated": 1, "reasons": {}, "stages": [], "loss": None}
    return SearchResult("chat", Goal("goodput", largest=True), [answer], **facts)
