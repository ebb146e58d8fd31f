"""Derivatives are measured with few simulations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from simsys.config.hardware import load_engine, load_gpu
from simsys.fidelity import derivatives
from simsys.fidelity.case import Case, Figures
from simsys.fidelity.coefficients import coefficients_of, to_unit
from simsys.fidelity.derivatives import Derivatives
from simsys.fidelity.predict import Simulations


@dataclass(frozen=True)
class Layers:
    """A run that depends on one coefficient of an engine, and reads the profile of a GPU in vain."""

    layers: int

    def expected_cpu_s(self) -> float:
        return 0.0

    def figures(self) -> Figures:
        load_gpu("H100-SXM")
        return {"s": self.layers * load_engine("vllm").per_layer}


CASES = [Case(f"c{n}", "serving", "g", "step_s", "s", 1.0, run=Layers(n), figure="s") for n in range(1, 41)]


def measured(monkeypatch: pytest.MonkeyPatch, likely: bool = False) -> tuple[np.ndarray[Any, Any], int, Sequence[str]]:
    """Derivatives, the number of simulations, and the names of the coefficients."""
    count = 0
    outcome_of = derivatives.outcome_of

    def counted(task: Any) -> Any:
        nonlocal count
        count += 1
        return outcome_of(task)

    with Simulations() as simulations:
        simulations.predict(CASES)
        monkeypatch.setattr(derivatives, "outcome_of", counted)
        read = [simulations.profiles(case.run) for case in CASES if case.run is not None]
        found = coefficients_of(read[0])
        places = np.array([to_unit(each, each.start) for each in found])
        names = [str(each) for each in found]
        known = np.array([[name == "vllm per_layer" for name in names]] * len(CASES)) if likely else None
        values = Derivatives(CASES, read, simulations, {}, known).at(found, places, np.ones(len(CASES), bool))
    return values, count, names


def test_what_a_run_does_not_depend_on_costs_one_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    values, count, names = measured(monkeypatch, likely=True)
    assert count == 3 * len(CASES), "as usual, with the coefficient moved, and with all others moved"
    column = names.index("vllm per_layer")
    assert values[:, column] == pytest.approx(np.full(len(CASES), np.log(2000.0)), rel=0.02), (
        "its bounds are 2000 apart"
    )
    assert np.count_nonzero(values) == len(CASES)


@pytest.mark.slow
def test_unknown_dependences_are_found_once_and_guessed_then(monkeypatch: pytest.MonkeyPatch) -> None:
    known, least, _ = measured(monkeypatch, likely=True)
    values, count, names = measured(monkeypatch)
    assert np.array_equal(values, known)
    assert least < count < 0.3 * len(CASES) * len(names)


def test_rows_that_are_not_asked_for_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with Simulations() as simulations:
        simulations.predict(CASES[:2])
        read = [simulations.profiles(case.run) for case in CASES[:2] if case.run is not None]
        found = coefficients_of(read[0])
        places = np.array([to_unit(each, each.start) for each in found])
        values = Derivatives(CASES[:2], read, simulations, {}).at(found, places, np.array([False, True]))
    assert not values[0].any()
    assert values[1].any()
