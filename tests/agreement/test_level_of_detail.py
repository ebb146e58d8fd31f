"""Medium saves what it saved, and is as close to high as it was: exact counts, which hold on any machine."""

from __future__ import annotations

import pytest

from simsys.check import check_file
from tests.helpers.level_of_detail_suite import FILE, QUICK, SHARED, count, counted
from tests.helpers.places import ROOT


@pytest.mark.parametrize("name", QUICK)
def test_events_of_both_levels_are_exactly_what_they_were(name: str) -> None:
    events, off = count(name)
    assert events == counted()[name], "if this is meant, run scripts/make_level_of_detail_counts.py"
    assert off <= SHARED.get(name, 1e-6)


def test_every_scenario_has_its_counts() -> None:
    names = {built.config.name for built in check_file(FILE)}
    assert {name for name in names if not name.endswith("-hour") and not name.startswith("peer-")} == set(QUICK)
    assert set(counted()) == set(QUICK)


def test_medium_takes_many_times_fewer_events() -> None:
    ratios = {name: events["high"] / events["medium"] for name, events in counted().items()}
    least = {name: ratio for name, ratio in ratios.items() if ratio < 50}
    assert set(least) <= {"g-ddp-64", "g-fsdp-64", "g-3d-512"}  # of which only the first iterations are simulated here
    assert all(ratio > 20 for ratio in least.values())


def test_tables_of_the_page_fit_a_terminal() -> None:
    page = (ROOT / "docs" / "explanation" / "level-of-detail.md").read_text(encoding="utf-8")
    tables = [block.split("```")[0] for block in page.split("```text\n")[1:]]
    assert len(tables) > 5
    assert max(len(line) for table in tables for line in table.split("\n")) <= 80
