"""Programs of passes: foreseen without events, or carried out one by one for an observer, with equal times."""

from __future__ import annotations

import pytest

from simsys.executors.iterations import foreseen
from simsys.executors.iterations.foreseen import ForeseenPrograms
from simsys.executors.iterations.played import PlayedPrograms
from simsys.ops import Compute, Operation, Send
from simsys.probes import Probe
from simsys.simulation import simulate
from tests.helpers.traced_scenarios import training


class Passes(Probe):
    """Counts computations and messages.

    Args:
        each_pass: Whether it wants each pass.
    """

    counts_only = True

    def __init__(self, *, each_pass: bool) -> None:
        self.each_pass = each_pass  # type: ignore[misc]  # of this probe alone
        self.computations = self.messages = 0

    def operation(self, op: Operation, started_s: float, ended_s: float) -> None:
        """Count it."""
        self.computations += isinstance(op, Compute)
        self.messages += isinstance(op, Send)


CONFIG = training("medium", 2, strategy="PP", pp_stages=4).with_({"training.gradient_accumulation_steps": 6})


def test_an_observer_may_hear_of_each_pass() -> None:
    sums, each = Passes(each_pass=False), Passes(each_pass=True)
    summed, played = (simulate(CONFIG, [probe]) for probe in (sums, each))
    assert each.computations > 3 * sums.computations
    assert each.messages > 3 * sums.messages
    assert played.metrics == pytest.approx(summed.metrics, rel=1e-9)
    assert played.events > summed.events


def test_very_many_passes_are_foreseen_nevertheless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreseen, "MOST_OBSERVED", 10)
    sums, each = Passes(each_pass=False), Passes(each_pass=True)
    assert simulate(CONFIG, [each]).events == simulate(CONFIG, [sums]).events
    assert each.computations == sums.computations


@pytest.mark.parametrize("strategy", ["TP_CP_ZERO2", "TP_CP_PP_ZERO2", "TP_CP_FSDP"])
def test_a_rank_waits_once_for_the_collectives_of_a_piece(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stages = {"pp_stages": 2} if "PP" in strategy else {}
    config = training("medium", 2, strategy=strategy, tp_degree=2, cp_degree=2, **stages)
    idle = config.with_({"simulation.occupy_links": False, "training.gradient_accumulation_steps": 4})
    once = simulate(idle)
    monkeypatch.setattr(ForeseenPrograms, "carry_out", PlayedPrograms.carry_out)
    each = simulate(idle)
    assert once.metrics == each.metrics
    assert once.events < each.events
