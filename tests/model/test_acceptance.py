"""Measured acceptance lengths and the probabilities that follow from them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.config.serving_options import SpeculativeConfig
from simsys.errors import UnknownNameError, UsageError
from simsys.model.acceptance import accepted_shares, measured_lengths, rate_of_length
from simsys.model.speculation import Speculation

GLM = "glm-5.2-fp8 MTP thinking"


def test_the_measured_length_is_the_mean_at_every_depth() -> None:
    lengths = measured_lengths(GLM)
    assert lengths[:3] == (1.84, 2.5, 2.99)
    for depth, length in enumerate(lengths, 1):
        found = Speculation(depth, shares=accepted_shares(lengths, depth))
        assert found.tokens_per_step == pytest.approx(length)


@given(st.lists(st.floats(1.0, 9.0), min_size=1, max_size=8))
def test_shares_fall_whatever_the_noise(lengths: list[float]) -> None:
    possible = [min(length, place + 2.0) for place, length in enumerate(lengths)]
    shares = accepted_shares(possible, len(possible))
    assert all(1.0 >= one >= other >= 0.0 for one, other in pairwise((1.0, *shares)))


def test_draws_have_the_shares() -> None:
    shares = accepted_shares(measured_lengths(GLM), 3)
    drawn = list(Speculation(3, shares=shares).draws(0).ring)
    for place, share in enumerate(shares, 1):
        assert sum(tokens > place for tokens in drawn) / len(drawn) == pytest.approx(share, abs=1e-4)


@given(st.integers(1, 16), st.floats(0.0, 1.0))
def test_a_length_and_its_rate(drafted: int, rate: float) -> None:
    assert rate_of_length(Speculation(drafted, rate).tokens_per_step, drafted) == pytest.approx(rate, abs=1e-6)


def test_constant_rates_by_place_are_one_rate() -> None:
    assert Speculation(2, shares=(0.5, 0.25)).at_least == Speculation(2, 0.5).at_least


def test_unknown_names_and_depths() -> None:
    with pytest.raises(UnknownNameError, match=r"glm-5.2-fp8 MTP thinking"):
        measured_lengths("glm-5.2-fp8 MTP")
    with pytest.raises(UsageError, match="9 drafted tokens, but acceptance was measured with up to 8"):
        accepted_shares(measured_lengths(GLM), 9)


def test_an_own_table_is_first_and_its_errors_have_a_line(tmp_path: Path) -> None:
    file = tmp_path / "acceptance_lengths.csv"
    file.write_text("model,method,thinking,length_1,length_2\nmine,EAGLE,,1.5,1.75\n")
    assert measured_lengths("mine EAGLE", [tmp_path]) == (1.5, 1.75)
    file.write_text("model,method,thinking,length_1\nmine,EAGLE,,2.5\n")
    with pytest.raises(UsageError, match=r"acceptance_lengths.csv:2: length_1 … are mean tokens"):
        measured_lengths("mine EAGLE", [tmp_path])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "in one way"),
        ({"acceptance_rate": 0.5, "acceptance_length": 2.0}, "in one way"),
        ({"acceptance_rate": [0.5]}, "1 rates for 3 draft_tokens"),
        ({"acceptance_rate": [0.5, 0.5, 1.5]}, "less than or equal to 1"),
        ({"acceptance_rate": 1.01}, "less than or equal to 1"),
        ({"acceptance_length": 4.5}, "at most 4 tokens per verification"),
    ],
)
def test_acceptance_that_cannot_be(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SpeculativeConfig.model_validate({"draft_tokens": 3, **given})
