"""Load of the busiest expert-parallel rank, and how replicas of popular experts lower it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.errors import UsageError
from simsys.parallel.expert_load import expected_copies, load_of, packed, replicated, shares_of, zipf_shares


@pytest.mark.parametrize("ranks", [1, 2, 8, 64])
def test_equal_shares_have_no_imbalance(ranks: int) -> None:
    assert load_of(zipf_shares(64, 0.0), ranks) == 1.0


def test_the_most_popular_expert_alone_on_a_rank_has_its_share_of_the_tokens() -> None:
    """Zipf with exponent 1 over 4 experts: 12, 6, 4 and 3 of 25 tokens."""
    assert zipf_shares(4, 1.0) == pytest.approx([12 / 25, 6 / 25, 4 / 25, 3 / 25])
    assert load_of(zipf_shares(4, 1.0), 4) == pytest.approx(4 * 12 / 25)
    assert load_of(zipf_shares(4, 1.0), 2) == pytest.approx(2 * 18 / 25)
    assert load_of(zipf_shares(4, 1.0), 2, balanced=True) == pytest.approx(2 * 15 / 25)  # 12 + 3 and 6 + 4


def test_a_replica_halves_the_load_of_the_most_popular_expert() -> None:
    assert sorted(replicated([0.6, 0.2, 0.2], 1)) == pytest.approx([0.2, 0.2, 0.3, 0.3])
    assert sorted(replicated([0.7, 0.15, 0.15], 3)) == pytest.approx([0.15, 0.15, 0.175, 0.175, 0.175, 0.175])
    assert load_of([0.6, 0.2, 0.2], 2, redundant=1, balanced=True) == pytest.approx(1.0)


@given(st.lists(st.floats(0.01, 100.0), min_size=16, max_size=16), st.sampled_from([2, 4, 8]))
def test_placing_experts_by_load_helps_and_replicas_help_more(counts: list[float], ranks: int) -> None:
    shares = shares_of(counts)
    balanced = load_of(shares, ranks, balanced=True)
    assert 1.0 <= balanced <= ranks
    most = max(shares) * ranks
    assert balanced >= min(most, 1.0) - 1e-9
    many = load_of(shares, ranks, redundant=48, balanced=True)
    assert many <= max(balanced, 4 / 3) + 1e-9  # what is dealt largest first is within 4/3 of the best (Graham 1969)


def test_all_slots_are_dealt() -> None:
    slots = replicated(zipf_shares(10, 1.2), 6)
    assert sum(slots) == pytest.approx(1.0)
    loads = packed(slots, 4)
    assert sum(loads) == pytest.approx(1.0)
    assert len(loads) == 4


def test_a_token_is_sent_once_to_each_place_of_its_experts() -> None:
    """8 experts on 8 GPUs are on 8 (1 - (7/8)^8) = 5.25 different ones on average."""
    assert expected_copies(8, 8) == pytest.approx(8 * (1 - (7 / 8) ** 8))
    assert expected_copies(8, 10**6) == pytest.approx(8.0, rel=1e-4)


def test_counts_and_replicas_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError, match="not all 0"):
        shares_of([0.0, 0.0])
    with pytest.raises(UsageError, match="5 experts and replicas cannot be divided among 2 ranks"):
        load_of(zipf_shares(4, 1.0), 2, redundant=1, balanced=True)
