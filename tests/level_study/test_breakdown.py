"""Where the time goes, package by package."""

from __future__ import annotations

import cProfile
import heapq
import pstats
from pathlib import Path

import pytest
import simpy

import frameworks
import simsys
from simsys.level_study.breakdown import OTHER, SIMPY, break_down, group, shares
from simsys.units import Dimension, parse
from tests.helpers.level_study_toys import SETTINGS, serving


def test_files_belong_to_packages() -> None:
    root = Path(simsys.__file__).parent
    assert group(str(root / "executors" / "high.py")) == "simsys.executors"
    assert group(str(root / "rank.py")) == "simsys.rank"
    assert group(str(root / "platform" / "environment.py")) == SIMPY
    assert group(str(Path(simpy.__file__).parent / "core.py")) == SIMPY
    assert group(str(Path(next(iter(frameworks.__path__))) / "ddp.py")) == "frameworks"
    assert group(heapq.__file__) == OTHER


def test_built_in_functions_count_for_those_that_call_them() -> None:
    profiler = cProfile.Profile()
    profiler.runcall(lambda: [sorted(range(2000)) for _ in range(50)])
    found = shares(pstats.Stats(profiler))
    assert found == {OTHER: pytest.approx(1.0)}
    profiler = cProfile.Profile()
    profiler.runcall(parse, "3 GB/s", Dimension.BYTES_PER_SECOND)
    assert "simsys.units" in shares(pstats.Stats(profiler))


def test_both_levels_are_broken_down() -> None:
    found = break_down(serving(), SETTINGS, seconds=1e-9)
    high, medium = (found["levels"][level]["shares"] for level in ("high", "medium"))
    assert sum(high.values()) == pytest.approx(1.0)
    assert sum(medium.values()) == pytest.approx(1.0)
    assert list(high.values()) == sorted(high.values(), reverse=True)
    assert (found["levels"]["high"]["amount"], found["levels"]["medium"]["amount"]) == (3, 5)
    assert min(high[SIMPY], medium[SIMPY]) > 0.0  # how large is the machine's affair
