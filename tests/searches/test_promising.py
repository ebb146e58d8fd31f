"""Candidates come in the order of their bounds, loose ones with their exact bounds, the simplest of the best first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.searches.candidates import Candidate
from simsys.searches.promising import NEAR, Promising


@dataclass(frozen=True)
class Bounded(Candidate):
    """A candidate with a bound, which may be loose, and a number of parts."""

    name: int
    exact_key: float
    least_key: float
    parts: int
    exact: bool

    known = {}  # noqa: RUF012

    @property
    def settings(self) -> dict[str, Any]:
        return {}

    def task(self, *, short: bool) -> Any:
        return None

    def metrics(self, found: Any) -> dict[str, Any]:
        return {}

    def simplicity(self, metrics: Any) -> tuple[float, ...]:
        return (float(self.parts),)


def tightened(candidate: Bounded) -> Bounded:
    assert not candidate.exact
    return replace(candidate, least_key=candidate.exact_key, exact=True)


@st.composite
def candidates(draw: st.DrawFn) -> list[Bounded]:
    """Up to twelve candidates, with few different bounds so that some are equal."""
    keys = st.integers(100, 106).map(float) | st.integers(1000, 1011).map(lambda each: each / 10.0)
    found = []
    for name in range(draw(st.integers(0, 12))):
        key, exact = draw(keys), draw(st.booleans())
        loose = key if exact else key - draw(st.integers(0, 3))
        found.append(Bounded(name, key, loose, draw(st.integers(1, 3)), exact))
    return found


def order(each: Bounded) -> tuple[float, int]:
    return each.exact_key, each.parts


@given(given_=candidates())
def test_all_come_in_the_order_of_their_exact_bounds(given_: list[Bounded]) -> None:
    found = list(Promising(given_, tightened))
    assert all(each.exact and each.least_key == each.exact_key for each in found)
    assert [order(each) for each in found] == sorted(map(order, given_))
    assert sorted(each.name for each in found) == [each.name for each in given_]


@given(given_=candidates())
def test_the_simplest_of_the_best_comes_first_and_the_others_in_order(given_: list[Bounded]) -> None:
    found = list(Promising(given_, tightened, simple_first=True))
    assert [order(each) for each in found[1:]] == sorted(order(each) for each in found[1:])
    assert sorted(each.name for each in found) == [each.name for each in given_]
    if given_:
        best = min(each.exact_key for each in given_)
        near = [each for each in given_ if each.exact_key <= best + NEAR * best]
        assert found[0].name in {each.name for each in near}
        assert found[0].parts == min(each.parts for each in near)


def test_bounds_are_made_exact_only_when_their_turn_comes() -> None:
    given_ = [Bounded(0, 10.0, 10.0, 1, exact=True), Bounded(1, 30.0, 20.0, 1, exact=False)]
    asked: list[int] = []

    def note(each: Bounded) -> Bounded:
        asked.append(each.name)
        return tightened(each)

    queue = Promising(given_, note)
    assert next(queue).name == 0
    assert not asked
    assert (queue.left(19.0), queue.left(20.0)) == (0, 1)
    assert next(queue).name == 1
    assert asked == [1]
    assert queue.left(100.0) == 0
    with pytest.raises(StopIteration):
        next(queue)
