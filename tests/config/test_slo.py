"""The section `slo`: targets of requests, limits of statistics and the needed share."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from simsys.config.slo import SloConfig


def test_all_demands_have_one_mapping() -> None:
    slo = SloConfig.model_validate({"ttft": "500 ms", "p99_itl": "80 ms", "attainment": "95 %"})
    assert slo.demands == {"ttft": 0.5, "p99_itl": 0.08, "attainment": 0.95}
    assert slo.targets_s == {"ttft": 0.5}


def test_the_share_is_99_percent_unless_given() -> None:
    assert SloConfig.model_validate({"tpot": "30 ms"}).demands == {"tpot": 0.03, "attainment": 0.99}


def test_nothing_is_demanded_without_targets() -> None:
    assert SloConfig().demands == {}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"attainment": 0.9}, "attainment is the share of requests that meet ttft, tpot and e2el; give one of these"),
        ({"p99_itl": "80 ms", "attainment": 0.9}, "attainment is the share of requests"),
        ({"ttft": "1 s", "attainment": 1.5}, "attainment"),
        ({"p98_ttft": "1 s"}, "p98_ttft"),
        ({"itl": "50 ms"}, "itl"),
        ({"p99_ttft": 500}, "no unit"),
    ],
)
def test_what_has_no_meaning_is_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SloConfig.model_validate(given)
