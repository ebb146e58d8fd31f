"""A steady state against the SLO."""

from __future__ import annotations

import re

import pytest

from simsys.capacity.judgement import judged, slo_of
from simsys.capacity.until_steady import Verdict
from simsys.errors import UsageError
from tests.helpers.capacity_toys import chat, one_seat


def test_a_steady_run_within_its_slo_misses_nothing() -> None:
    found = judged(one_seat(0.3))
    assert found.meets
    assert found.missed == ()


def test_a_steady_run_beyond_its_slo_says_what_it_misses() -> None:
    found = judged(one_seat(0.3, slo={"p50_e2el": "500 ms"}))
    assert found.state.is_steady
    assert not found.meets
    (missed,) = found.missed
    assert re.fullmatch(r"p50 E2E 6\d\d(\.\d)? ms > 500 ms", missed)


def test_a_run_that_is_not_steady_misses_that() -> None:
    found = judged(one_seat(0.3), most_requests=500)
    assert found.missed == ("not yet steady after 500 requests (1686 s), which was the limit of requests",)


def test_an_overload_is_known_early() -> None:
    found = judged(one_seat(2.0, slo={"p99_ttft": "1 s"}))
    assert found.state.verdict is Verdict.MISSED
    assert found.state.requests <= 1000
    assert len(found.missed) == 1


def test_a_statistic_without_value_on_the_way_ends_no_run() -> None:
    """Times between tokens are only known at the end of a run."""
    found = judged(chat(2.0, slo={"p99_itl": "1 s"}))
    assert found.meets
    assert found.state.metrics["p99_itl_ms"] is not None


def test_further_demands_count_at_the_end() -> None:
    found = judged(one_seat(0.3), also=lambda metrics: [f"mean_batch_size is {metrics['mean_batch_size']:g}"])
    assert found.missed == ("mean_batch_size is 1",)


@pytest.mark.parametrize("slo", [None, {}])
def test_without_an_slo_there_is_nothing_to_judge(slo: dict[str, str] | None) -> None:
    with pytest.raises(UsageError, match="write one, such as slo"):
        slo_of(chat(slo=slo))
