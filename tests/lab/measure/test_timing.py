"""The rules by which a time is chosen among samples."""

from __future__ import annotations

import pytest

from simsys.lab.clock import Taken, is_disturbed
from simsys.lab.measure import timing
from simsys.lab.measure.timing import FEWEST, SHORTEST_SAMPLE_S, of_computation, of_exchange, timed


def taken(*times_s: tuple[float, float]) -> list[Taken]:
    return [Taken(wall_s, cpu_s, 1, 0) for wall_s, cpu_s in times_s]


def test_the_median_of_undisturbed_samples() -> None:
    found = of_computation(taken((1.0, 1.0), (1.1, 1.08), (1.2, 1.2), (9.0, 1.1)), 1, 1)
    assert (found.seconds, found.disturbed, found.preempted) == (1.1, False, 4)


def test_processor_time_if_all_were_disturbed() -> None:
    found = of_computation(taken((3.0, 2.0), (4.0, 2.2), (5.0, 2.4)), 2, 1)
    assert found.seconds == pytest.approx(1.1)
    assert found.disturbed


def test_threads_share_the_processor_time() -> None:
    assert of_computation(taken(*[(1.0, 2.0)] * 3), 1, 2).seconds == 1.0


def test_an_exchange_is_as_fast_as_its_fastest_quarter() -> None:
    found = of_exchange(taken(*[(float(time), 0.1) for time in range(1, 9)]), 1)
    assert found.seconds == 1.5
    assert found.disturbed


def test_short_calls_are_repeated_within_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shortest of a few calls says how often, since another program may disturb one of them."""
    trials = [Taken(5e-3, 1e-5, 1, 0), Taken(1.1e-5, 1e-5, 0, 0), Taken(1e-5, 1e-5, 0, 0)]
    samples = iter([*trials, *[Taken(1e-3, 1e-3, 0, 0)] * FEWEST])

    class Clock:
        def taken(self) -> Taken:
            return next(samples)

    monkeypatch.setattr(timing, "Clock", Clock)
    calls: list[None] = []
    found = timed(lambda: calls.append(None), budget_s=0.0)
    repeated = round(SHORTEST_SAMPLE_S / 1e-5)
    assert len(calls) == 1 + len(trials) + FEWEST * repeated
    assert found.seconds == pytest.approx(1e-3 / repeated)


def test_wall_time_far_above_processor_time_is_disturbed() -> None:
    assert is_disturbed(1.5, 1.0)
    assert not is_disturbed(1.1, 1.0)
