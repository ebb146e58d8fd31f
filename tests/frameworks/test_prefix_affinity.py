"""The router that prefers cached prefixes, against its definition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frameworks.prefix_affinity import PrefixAffinity


@dataclass
class Seen:
    """What the router sees of a replica."""

    cached: int
    outstanding: int

    def cached_tokens(self, request: int) -> int:
        return self.cached


def routed(pairs: list[tuple[int, int]], absolute: int = 32, relative: float = 1.1) -> int:
    replicas: list[Any] = [Seen(*pair) for pair in pairs]
    options = PrefixAffinity.Options(balance_abs_threshold=absolute, balance_rel_threshold=relative)
    chosen = PrefixAffinity(replicas, 0, options).route(0)
    return next(place for place, replica in enumerate(replicas) if replica is chosen)


def defined(pairs: list[tuple[int, int]], absolute: int, relative: float) -> int:
    """The longest prefix, of these the fewest requests, of these the first; unless it is far busier than another."""
    places = range(len(pairs))
    best = min(places, key=lambda place: (-pairs[place][0], pairs[place][1], place))
    idlest = min(places, key=lambda place: (pairs[place][1], place))
    load, least = pairs[best][1], pairs[idlest][1]
    return idlest if load - least > absolute and load > relative * least else best


@pytest.mark.parametrize(
    ("pairs", "place"),
    [
        ([(0, 3), (16, 5)], 1),  # the longer prefix
        ([(16, 5), (16, 4)], 1),  # the fewer requests
        ([(16, 4), (16, 5)], 0),
        ([(16, 4), (16, 4)], 0),  # the first
        ([(0, 4), (0, 4)], 0),
        ([(16, 1), (0, 0)], 0),  # a shorter prefix, even with fewer requests, is no better
        ([(16, 42), (0, 10)], 0),  # 32 requests more are allowed
        ([(16, 43), (0, 10)], 1),
        ([(16, 440), (0, 400)], 0),  # and 1.1 times as many
        ([(16, 441), (0, 400)], 1),
        ([(16, 100), (0, 10), (0, 10)], 1),  # the first of the idlest
    ],
)
def test_the_replica_with_the_longest_prefix_is_chosen_unless_it_is_far_busier(
    pairs: list[tuple[int, int]], place: int
) -> None:
    assert routed(pairs) == place


def test_what_is_allowed_is_not_too_busy() -> None:
    assert routed([(16, 4), (0, 2)], absolute=1, relative=2.0) == 0
    assert routed([(16, 5), (0, 2)], absolute=1, relative=2.0) == 1
    assert routed([(16, 5), (0, 2)], absolute=3, relative=2.0) == 0


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6)), min_size=1, max_size=5),
    st.integers(0, 4),
    st.sampled_from([1.0, 1.5, 2.0]),
)
def test_choices_are_those_of_the_definition(pairs: list[tuple[int, int]], absolute: int, relative: float) -> None:
    assert routed(pairs, absolute, relative) == defined(pairs, absolute, relative)
