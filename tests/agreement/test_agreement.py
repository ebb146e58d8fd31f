"""Medium answers by default what high answers, in random scenarios of all kinds, or says that it may not.

A draw counts if it passes the check. Its figures at medium, as an experiment file without a word on links has it, are
held against those at high, where every transfer is carried out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import ValidationError

import simsys.sharing
from simsys.config.experiment import SimulationConfig
from simsys.errors import InfeasibleError, UsageError
from simsys.metrics.result import RunResult
from simsys.shared_links import MIRRORS_DOUBT
from simsys.simulation import simulate
from tests.helpers.random_scenarios import scenario, training_scenario
from tests.helpers.thorough import cases

FIGURES = ("mean_iteration_s", "steady_iteration_s", "mean_ttft_ms", "mean_tpot_ms", "duration_s", "makespan_s")
CLOSE, FAR = 0.01, 0.05
FIRST = 1000
"""Seeds from here on are those of the thorough test."""


@dataclass(frozen=True)
class Draw:
    """A scenario at both levels of detail."""

    seed: int
    off: float
    figure: str
    warned: bool

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.figure} {self.off:+.2%}, {'warned' if self.warned else 'no warning'}"


def at(lod: str, given: dict[str, Any]) -> RunResult:
    return simulate(SimulationConfig.model_validate({**given, "simulation": {**given["simulation"], "lod": lod}}))


def draw(seed: int, given: dict[str, Any]) -> Draw | None:
    """How far the levels are apart in a scenario, by the figure in which they are farthest; None if it is refused."""
    try:
        medium, high = at("medium", given), at("high", given)
    except (UsageError, InfeasibleError, ValidationError):
        return None
    found = dict(differences(medium, high))
    if not found:  # every request was rejected
        return None
    figure = max(found, key=lambda name: abs(found[name]))
    return Draw(seed, found[figure], figure, any("link" in text for text in medium.warnings))


def differences(medium: RunResult, high: RunResult) -> Iterator[tuple[str, float]]:
    """Every figure, those of single jobs too, with what medium has more, as a share of high's."""
    pairs = [(medium, high), *zip(medium.jobs or (), high.jobs or (), strict=True)]
    for one, other in pairs:
        for name in FIGURES:
            if other.metrics.get(name):
                yield f"{one.name} {name}", one.metrics[name] / other.metrics[name] - 1.0


def far_without_warning(draws: list[Draw]) -> list[str]:
    return [str(each) for each in draws if abs(each.off) > FAR and not each.warned]


@pytest.mark.parametrize("block", range(cases(9, 3)))
def test_the_default_answer_is_that_of_high(block: int) -> None:
    seeds = range(10 * block, 10 * block + 10)
    draws = [found for seed in seeds if (found := draw(seed, scenario(seed)))]
    assert len(draws) >= 3
    assert not far_without_warning(draws)
    assert [str(each) for each in draws if abs(each.off) > CLOSE and not each.warned] == []


@pytest.mark.slow
def test_the_default_answer_is_that_of_high_in_a_thousand_draws() -> None:
    draws: list[Draw] = []
    seed = FIRST
    while len(draws) < 1000:
        found = draw(seed, scenario(seed))
        draws += [found] if found else []
        seed += 1
    assert not far_without_warning(draws)
    apart = [str(each) for each in draws if abs(each.off) > CLOSE]
    assert len(apart) <= 0.02 * len(draws), "\n".join(apart)


@pytest.mark.parametrize("seed", [9, 40, 155, 197, 569])
def test_groups_out_of_step_as_one_are_warned_of(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    given = training_scenario(seed)
    monkeypatch.setattr(simsys.sharing, "MOST_APART", 0)
    medium, high = at("medium", given), at("high", given)
    assert any("unequal shares of links" in text for text in medium.warnings)
    assert all(abs(off) < MIRRORS_DOUBT for _, off in differences(medium, high))
