"""The levels of detail beside each other. Counts and differences are asserted, which hold anywhere; times are printed.

The quick part (`make bench-quick`) is each scenario with little to do; the whole one takes up to ten minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import FIGURES

sys.path.append(str(Path(__file__).resolve().parents[1]))

from simsys.check import check_file
from simsys.config.experiment import SimulationConfig
from simsys.executors import MIXTURES
from simsys.level_study.attribution import attribute
from simsys.level_study.compare import Settings, compare
from simsys.level_study.variants import HIGH, MEDIUM, as_variant
from tests.helpers import reference_executor
from tests.helpers.level_of_detail_suite import FILE, QUICK, SHARED, counted, quick

WHOLE = [built.config for built in check_file(FILE) if not built.config.name.startswith("peer-")]
HERE = Settings(repeats=1, call=lambda function, _, *args: function(*args))
"""Measured in this process."""
QUIET_SERVING = ("a-", "b-", "c-")


def told(benchmark: Any, row: dict[str, Any]) -> None:
    """Put a row into the table at the end and into the benchmark's file."""
    FIGURES.append((row["name"], _text(row)))
    benchmark.extra_info.update(
        {name: row[name] for name in ("speedup", "cpu_speedup", "event_reduction", "largest_difference", "reasons")}
    )


def _text(row: dict[str, Any]) -> str:
    return (
        f"{row['speedup']:.0f} times faster, {row['event_reduction']:,.0f} times fewer events, "
        f"{row['largest_difference']:.1e} off"
    )


def check(row: dict[str, Any]) -> None:
    """Medium is as close as it is meant to be."""
    assert row["largest_difference"] <= SHARED.get(row["name"], 1e-6)


@pytest.mark.parametrize("name", QUICK)
def test_with_little_to_do(benchmark: Any, name: str) -> None:
    config = quick(name)
    row = compare(config, HERE).as_dict()
    benchmark.pedantic(lambda: as_variant(config, MEDIUM).simulate(), rounds=3, warmup_rounds=1)
    told(benchmark, row)
    check(row)
    assert {level: each["events"] for level, each in row["levels"].items()} == counted()[name]


@pytest.mark.slow
@pytest.mark.parametrize("config", WHOLE, ids=lambda config: config.name)
def test_as_on_the_page(benchmark: Any, config: SimulationConfig) -> None:
    row = compare(config, Settings(part=True)).as_dict()
    benchmark.pedantic(lambda: as_variant(config, MEDIUM).simulate(), rounds=3)
    told(benchmark, row)
    check(row)
    assert row["event_reduction"] >= (100 if config.name.startswith(QUIET_SERVING) else 50)


@pytest.fixture
def naive() -> Iterator[str]:
    """The level of detail that is high in plain SimPy."""
    reference_executor.register()
    yield reference_executor.NAIVE
    del MIXTURES[reference_executor.NAIVE]


@pytest.mark.parametrize("name", ["a-1-gpu", pytest.param("b-tp4", marks=pytest.mark.slow)])
def test_high_against_plain_simpy(benchmark: Any, name: str, naive: str) -> None:
    """Processes and resources give the same figures, for many more events."""
    config = quick(name)
    plain, high = attribute(config, replace(HERE, limit_s=1e9), 1e9, (naive, HIGH))["variants"]
    benchmark.pedantic(lambda: as_variant(config, HIGH).simulate(), rounds=3)
    rate = f"{high['events_per_cpu_s']:,.0f} events per CPU-s"
    FIGURES.append((f"{name}: high over plain SimPy", f"{high['cpu_speedup']:.0f} times faster, {rate}"))
    assert high["largest_difference"] <= 1e-9
    assert plain["events"] > 4 * high["events"]
