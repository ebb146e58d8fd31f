"""Each variant is the same scenario, simulated in another way."""

from __future__ import annotations

import pytest

from simsys.errors import UsageError
from simsys.level_study.variants import (
    ANALYTICAL,
    ATTRIBUTION,
    BOTH,
    HIGH,
    MACRO,
    MEDIUM,
    OCCUPIED,
    RUNS,
    as_variant,
    attribution_variants,
)
from tests.helpers.level_study_toys import contended, jobs, serving, training


def test_abstractions_save_events_and_change_no_time_on_quiet_links() -> None:
    results = [as_variant(serving(), variant).simulate() for variant in ATTRIBUTION]
    for result in results[1:]:
        assert result.rows["finished_s"] == pytest.approx(results[0].rows["finished_s"], rel=1e-9)
    high, macro, analytical, both, jumps = (result.events for result in results)
    assert jumps <= both < macro < high
    assert both < analytical


def test_training_too() -> None:
    results = [as_variant(training(), variant).simulate() for variant in ATTRIBUTION]
    for result in results[1:]:
        assert result.metrics["mean_iteration_s"] == pytest.approx(results[0].metrics["mean_iteration_s"], rel=1e-9)
    high, macro, analytical, both, jumps = (result.events for result in results)
    assert jumps < both <= macro < high
    assert both < analytical <= high


def test_the_levels_are_as_the_scenario_asks_for_them() -> None:
    config = contended()
    assert as_variant(config, HIGH).config.simulation.lod == HIGH
    for variant in (MEDIUM, OCCUPIED):
        assert as_variant(config, variant).config.simulation.lod == MEDIUM
        assert as_variant(config, variant).config.simulation.occupy_links
    for variant in (BOTH, RUNS):
        assert as_variant(config, variant).config.simulation.occupy_links is False


def test_the_seed_and_the_workload_stay() -> None:
    config = serving()
    for variant in (HIGH, MACRO, ANALYTICAL, BOTH, RUNS):
        changed = as_variant(config, variant).config
        assert (changed.simulation.seed, changed.workload) == (config.simulation.seed, config.workload)


def test_occupied_links_are_one_more_variant_unless_links_are_to_be_idle() -> None:
    idle = serving(simulation={"occupy_links": False})
    assert attribution_variants(idle) == ATTRIBUTION
    assert attribution_variants(serving()) == (*ATTRIBUTION, OCCUPIED)
    assert attribution_variants(contended()) == (*ATTRIBUTION, OCCUPIED)


def test_several_jobs_have_no_attribution() -> None:
    with pytest.raises(UsageError, match="several"):
        attribution_variants(jobs())
