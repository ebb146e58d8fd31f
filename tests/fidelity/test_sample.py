"""Which runs a calibration samples."""

from __future__ import annotations

from dataclasses import dataclass, replace

from simsys.fidelity.case import Case, Figures
from simsys.fidelity.predict import Simulations
from simsys.fidelity.sample import FEWEST_RUNS, not_looked_at, sample

SHORT_S = 0.05


@dataclass(frozen=True)
class Timed:
    """A run whose simulation needs this processor time."""

    number: int
    cpu_s: float = 0.0

    def expected_cpu_s(self) -> float:
        return self.cpu_s

    def figures(self) -> Figures:
        return {}


def of(group: str, count: int, *, metric: str = "x", family: str = "collectives", cpu_s: float = 0.0) -> list[Case]:
    runs = [Timed(number, cpu_s * (number + 1) or SHORT_S) for number in range(count)]
    return [Case(f"{group}{run.number}{metric}", family, group, metric, "s", 1.0, run=run) for run in runs]


def chosen(cases: list[Case], of_hundred: int) -> list[str]:
    with Simulations() as simulations:
        return [case.id for case in sample(cases, of_hundred, simulations)]


def test_a_sample_has_the_root_of_each_groups_runs_with_all_their_cases() -> None:
    table = [
        *of("a", 64),
        *of("a", 64, metric="y"),
        *of("b", 1),
        Case("n", "collectives", "a", "x", "s", 1.0),
    ]
    expected = [f"a{number}{metric}" for number in range(0, 64, 8) for metric in "xy"]
    assert chosen(table, 10) == [*expected, "b0x"]
    assert len(chosen(table, 1000)) == 129
    assert len(chosen(of("c", 100), 1)) == FEWEST_RUNS


def test_some_families_and_static_batches_are_sampled_more_densely() -> None:
    batches = [replace(case, tags={"load_kind": "static_batch"}) for case in of("c", 100)]
    assert len(chosen(batches, 10)) == 20
    assert len(chosen([replace(case, family="training") for case in batches], 10)) == 40
    assert len(chosen([replace(case, family="serving") for case in batches], 10)) == 60


def test_runs_of_very_short_simulations_are_sampled_twice_as_densely() -> None:
    assert len(chosen(of("c", 100, cpu_s=1e-6), 10)) == 20
    assert len(chosen(of("c", 100, cpu_s=2e-3), 10)) == 10, "those of fewer than 20 are very short"


def test_runs_of_long_simulations_are_sampled_where_too_few_are_short() -> None:
    assert chosen(of("t", 16, family="training", cpu_s=0.1), 4) == ["t0x", "t1x", "t2x", "t3x"]
    assert chosen(of("t", 16, family="training", cpu_s=0.2)[::-1], 4) == ["t0x", "t1x", "t2x", "t3x"]
    assert chosen(of("t", 16, family="training", cpu_s=0.4), 4) == ["t0x", "t1x"]
    assert chosen(of("t", 16, family="training", cpu_s=3.0), 4) == []


def test_held_out_rows_are_those_that_a_fit_does_not_look_at() -> None:
    table = [*of("a", 100, family="training"), *of("b", 100, family="serving", cpu_s=0.001)]
    with Simulations() as simulations:
        held_out = [case.id for case in not_looked_at(table, 10, simulations)]
    assert sorted([*held_out, *chosen(table, 10)]) == sorted(case.id for case in table)


def test_runs_without_an_expected_time_come_last() -> None:
    """They cannot be simulated, so a sample of them would be no sample."""
    lost = [replace(case, id=f"lost{case.id}", run=Timed(100 + place)) for place, case in enumerate(of("a", 40))]
    slow = [replace(case, run=Timed(200 + place, 0.5 + place / 100)) for place, case in enumerate(of("a", 10))]
    assert chosen(lost + slow, 10) == [f"a{number}x" for number in range(8)]
    assert len(chosen(lost, 10)) == 7, "but there is nothing else"
