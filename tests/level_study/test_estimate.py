"""What high would cost, concluded from its beginning."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace

import pytest

import simsys.level_study.estimate as module
from simsys.config.experiment import SimulationConfig
from simsys.level_study.amounts import with_amount
from simsys.level_study.estimate import estimate
from simsys.level_study.variants import HIGH, as_variant
from tests.helpers.level_study_toys import jobs, serving, training


@pytest.mark.parametrize("config", [serving(), training(), jobs()], ids=lambda config: config.name)
def test_what_is_over_during_the_trial_is_counted(config: SimulationConfig) -> None:
    result = as_variant(config, HIGH).simulate()
    found = estimate(config, result.simulated_s, trial_s=60.0)
    assert found.events == pytest.approx(result.events, rel=0.05)
    assert found.cpu_s > 0.0


def test_what_is_not_is_concluded_from_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes on whenever it is looked at: by that of the machine, the beginning may be anything."""
    config = with_amount(serving(), 60)
    result = as_variant(config, HIGH).simulate()
    clock = count(step=1e-4)
    monkeypatch.setattr(module, "time", SimpleNamespace(process_time=lambda: next(clock)))
    found = estimate(config, result.simulated_s, trial_s=1e-3)
    assert found.run_s > 2e-3, "it was not over"
    assert found.events == pytest.approx(result.events, rel=0.9)
