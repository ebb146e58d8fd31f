"""What each abstraction is worth in a scenario."""

from __future__ import annotations

import pytest

from simsys.errors import UsageError
from simsys.level_study.amounts import amount
from simsys.level_study.attribution import attribute, part_of
from simsys.level_study.variants import ANALYTICAL, ATTRIBUTION, HIGH, MACRO, OCCUPIED, RUNS
from tests.helpers.level_study_toys import SETTINGS, contended, jobs, serving, training

pytestmark = pytest.mark.usefixtures("what_others_left_is_kept")


def test_high_is_what_the_others_are_compared_with() -> None:
    found = attribute(serving(), SETTINGS)
    first = found["variants"][0]
    assert [row["variant"] for row in found["variants"]] == [*ATTRIBUTION]
    assert (first["cpu_speedup"], first["event_reduction"], first["largest_difference"]) == (1.0, 1.0, 0.0)
    for row in found["variants"]:
        assert row["event_reduction"] == first["events"] / row["events"]
        assert row["largest_difference"] < 1e-6


def test_where_links_are_shared_closed_forms_bring_the_error() -> None:
    error = {row["variant"]: row["largest_difference"] for row in attribute(contended(), SETTINGS)["variants"]}
    assert set(error) == {*ATTRIBUTION, OCCUPIED}
    assert error[MACRO] < error[ANALYTICAL] == pytest.approx(error[RUNS])


def test_a_part_takes_high_about_as_long_as_it_may() -> None:
    assert amount(part_of(serving(), SETTINGS, 1e-9)) == 3
    assert amount(part_of(serving(), SETTINGS, 1e9)) == amount(serving())
    assert amount(part_of(training(), SETTINGS, 1e-9)) == 3


def test_several_jobs_are_refused() -> None:
    with pytest.raises(UsageError, match="several"):
        attribute(jobs(), SETTINGS)
    assert ATTRIBUTION[0] == HIGH
