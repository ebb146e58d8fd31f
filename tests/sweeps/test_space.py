from __future__ import annotations

import pytest

from simsys.config.loader import validate
from simsys.config.sweep import SweepConfig
from simsys.sweeps.space import axes_of, combinations


def points(**section: object) -> list[tuple[object, ...]]:
    return list(combinations(axes_of(validate(section, SweepConfig))))


def test_a_grid_has_all_combinations_the_last_setting_fastest() -> None:
    assert points(over={"a": [1, 2], "b": "1..4 x2"}) == [(1, 1), (1, 2), (1, 4), (2, 1), (2, 2), (2, 4)]


def test_zipped_columns_vary_together() -> None:
    found = points(over={"a": ["x", "y"]}, zip=[{"b": [1, 2], "c": "3..4"}])
    assert found == [("x", 1, 3), ("x", 2, 4), ("y", 1, 3), ("y", 2, 4)]


@pytest.mark.parametrize("kind", ["random", "latin_hypercube"])
def test_samples_depend_on_their_seed_alone(kind: str) -> None:
    def drawn(seed: int) -> list[tuple[object, ...]]:
        return points(sample={"kind": kind, "points": 20, "seed": seed, "over": {"a": "1..1000", "b": "1.0..2.0 ms"}})

    assert drawn(1) == drawn(1) != drawn(2)


def test_a_latin_hypercube_has_one_value_in_each_part() -> None:
    count = 16
    drawn = points(sample={"points": count, "over": {"a": "0.0..16.0", "b": "1..65536 log", "c": [7, 8]}})
    parts = sorted(int(float(str(row[0]))) for row in drawn)
    assert parts == list(range(count))
    powers = sorted(int(row[1]).bit_length() - 1 for row in drawn)  # type: ignore[call-overload]
    assert powers == list(range(count))
    assert sorted(row[2] for row in drawn) == [7] * 8 + [8] * 8  # type: ignore[type-var]


def test_random_points_do_not_fill_each_part() -> None:
    drawn = points(sample={"kind": "random", "points": 16, "over": {"a": "0.0..16.0"}})
    assert len({int(float(str(row[0]))) for row in drawn}) < 16
