"""A plan: the algorithm's time under a protocol, with overhead and ramp."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.collectives import CollectiveKind, Path, get_algorithm
from simsys.collectives.collective_plan import CollectivePlan

ALL_REDUCE = CollectiveKind.ALL_REDUCE
IDLE = Path(1e-6, 50e9)
sizes_in_bytes = st.just(0.0) | st.floats(1.0, 1e12)


def halved(path: Path) -> Path:
    return Path(path.latency_s + 2e-6, path.bytes_per_s / 2, path.way)


def plan(**changes: object) -> CollectivePlan:
    settings = {"protocol": "LL", "over": halved, "overhead_s": 7e-6, "ramp": 1.0, **changes}
    return CollectivePlan(get_algorithm("ring"), ALL_REDUCE, 8, [IDLE], **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("nbytes", [0.0, 4.0, 1e6, 1e9])
def test_it_takes_the_fixed_and_the_moving_part_and_the_root_of_their_product(nbytes: float) -> None:
    fixed_s, moving_s = 7e-6 + 14 * 3e-6, 14 * nbytes / 8 / 25e9
    expected = fixed_s + moving_s + math.sqrt(fixed_s * moving_s)
    assert plan().seconds(nbytes) == pytest.approx(expected, rel=1e-12)
    assert plan().idle_s(nbytes) == pytest.approx(7e-6 + math.sqrt(fixed_s * moving_s), rel=1e-12)


@given(sizes_in_bytes, st.integers(2, 64), st.sampled_from(["ring", "tree", "double_tree", "direct"]))
def test_without_ramp_it_is_the_closed_form_on_the_paths_of_the_protocol(nbytes: float, size: int, name: str) -> None:
    algorithm = get_algorithm(name)
    expected = 7e-6 + algorithm.seconds(ALL_REDUCE, size, nbytes, [halved(IDLE)])
    one = CollectivePlan(algorithm, ALL_REDUCE, size, [IDLE], "LL", halved, 7e-6)
    assert one.seconds(nbytes) == pytest.approx(expected, rel=1e-12)


def test_without_a_protocol_it_is_the_algorithm_alone() -> None:
    ring = get_algorithm("ring")
    expected = ring.seconds(ALL_REDUCE, 8, 1e6, [IDLE])
    assert CollectivePlan(ring, ALL_REDUCE, 8, [IDLE]).seconds(1e6) == pytest.approx(expected, rel=1e-14)
    assert CollectivePlan(ring, ALL_REDUCE, 8, [IDLE]).idle_s(1e6) == 0.0


def test_one_rank_needs_no_launch() -> None:
    assert CollectivePlan(get_algorithm("ring"), ALL_REDUCE, 1, [], "LL", halved, 7e-6, 1.0).seconds(1e6) == 0.0
