"""The regularisation of a fit, and the derivatives of rows that are not measured."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
import pytest

from simsys.errors import UsageError
from simsys.fidelity.case import Case, Prediction
from simsys.fidelity.coefficients import coefficients_of
from simsys.fidelity.problem import NOISE, PULL, PULL_WITHOUT_TRAINING, Problem, _felt_in_training, _pulls, _weights

OTHER, PARENT, CHILD = ("engine", "vllm"), ("engine", "megatron"), ("engine", "deepspeed")


def test_a_profile_is_held_near_the_one_that_it_extends() -> None:
    named = (OTHER, PARENT, CHILD)
    found = [each for each in coefficients_of(named) if each.path == ("per_layer",)]  # type: ignore[arg-type]
    pulls = _pulls(found, np.ones(3, bool))
    place, parent = ([each.named for each in found].index(name) for name in (CHILD, PARENT))
    assert np.diag(pulls).tolist() == [PULL] * 3
    assert pulls[place, parent] == -PULL
    assert np.count_nonzero(pulls) == 4
    served = _pulls(found, np.array([each.named != CHILD for each in found]))
    assert served[place].tolist() == (PULL_WITHOUT_TRAINING * pulls[place]).tolist()
    assert np.delete(served, place, 0).tolist() == np.delete(pulls, place, 0).tolist()


def test_coefficients_that_training_feels_are_held_as_strongly_as_ever() -> None:
    cases = [row(0, "fp8", "1"), replace(row(1, "fp8", "1"), family="training")]
    measured = np.array([[1.0, 2.0, 0.0], [0.0, 0.5, -1.0]])
    assert _felt_in_training(cases, measured).tolist() == [False, True, True]


def test_rows_of_serving_weigh_the_same_and_sources_of_training_by_their_settings() -> None:
    serving = [row(number, "fp8", "1") for number in range(4)]
    serving += [replace(row(4, "fp8", "1"), group="other"), replace(row(5, "fp8", "1"), metric="ttft_ms")]
    training = [
        replace(row(6 + number, "bf16", "1"), family="training", metric="iteration_s", group=group)
        for number, group in enumerate(["few", "many", "many", "many"])
    ]
    squared = _weights([*serving, *training]) ** 2
    assert squared[:6].sum() == pytest.approx(0.5)
    assert squared[:5] == pytest.approx(np.full(5, squared[0]))
    assert squared[5] == pytest.approx(squared[0] / NOISE["ttft_ms"] ** 2)
    assert squared[6] == pytest.approx(squared[7:].sum()), "both sources have one setting"
    assert squared[7:] == pytest.approx(np.full(3, squared[7]))


def row(number: int, precision: str, tp: str, model: str = "m") -> Case:
    tags = {"gpu": "g", "engine": "e", "model": model, "precision": precision, "tp": tp}
    return Case(str(number), "serving", "table", "tpot_ms", "ms", 1.0, tags)


def borrowed(cases: list[Case], measured: list[int]) -> list[float]:
    """From which row each row has its derivatives."""
    problem = object.__new__(Problem)
    problem.cases, problem.read = cases, [frozenset()] * len(cases)
    found, some = np.arange(float(len(cases)))[:, None], np.zeros(len(cases), bool)
    some[measured] = True
    problem._borrow(found, some)
    return [float(each) for each in found[:, 0]]


def test_rows_have_the_derivatives_of_their_own_precision_and_model() -> None:
    cases = [
        row(0, "fp8", "1"),
        row(1, "fp4", "1"),
        row(2, "fp8", "1"),
        row(3, "fp8", "1", "other"),
        row(4, "fp8", "1"),
    ]
    assert borrowed(cases, [0, 1, 3]) == [0, 1, 0, 3, 0]


def test_of_several_rows_the_nearest_of_the_same_degree_lends() -> None:
    cases = [row(0, "fp8", "8"), row(1, "fp8", "1"), row(2, "fp8", "8"), row(3, "fp8", "4"), row(4, "fp8", "1")]
    assert borrowed(cases, [0, 1]) == [0, 1, 0, 1, 1]


def test_each_kind_of_row_has_one_that_is_measured() -> None:
    problem = object.__new__(Problem)
    problem.cases = [row(number, precision, "1") for number, precision in enumerate(["fp8", "fp4", "fp8", "bf16"])]
    problem.read, problem._parts = [frozenset()] * 4, 3
    assert problem._part(0)[[0, 1, 3]].all()


@dataclass
class Losing:
    """Simulations of which the first ones fail."""

    failing: int

    def predict(self, cases: list[Case], overlay: object) -> list[Prediction]:
        return [
            Prediction(case, reason="failed: efficiencies are above 0")
            if place < self.failing
            else Prediction(case, 2.0)
            for place, case in enumerate(cases)
        ]


@pytest.mark.parametrize("failing", [0, 2, 3])
def test_a_search_says_that_its_steps_lose_many_rows(failing: int) -> None:
    problem = object.__new__(Problem)
    problem.cases, problem.coefficients, problem._base = [row(number, "fp8", "1") for number in range(20)], [], {}
    problem._simulations = Losing(failing)  # type: ignore[assignment]
    everything = np.ones(20, bool)
    if failing <= 2:
        assert list(problem.errors(np.zeros(0), everything)).count(np.log(2.0)) == 20 - failing
        return
    with pytest.raises(
        UsageError, match=re.escape("3 of 20 rows cannot be predicted with coefficients of the fit: failed")
    ):
        problem.errors(np.zeros(0), everything)
