"""The regularisation of a fit, and the derivatives of rows that are not measured."""

from __future__ import annotations

import numpy as np

from simsys.fidelity.case import Case
from simsys.fidelity.coefficients import Coefficient, coefficients_of
from simsys.fidelity.problem import PULL, PULL_IN_TRAINING, PULL_TO_RELATIVES, Problem, _pulls

TRAINS, SERVES = ("engine", "megatron"), ("engine", "vllm")
CHILD = ("engine", "deepspeed")


def coefficients(*named: tuple[str, str], path: tuple[str, ...] = ("per_layer",)) -> list[Coefficient]:
    return [each for each in coefficients_of(named) if each.path == path]  # type: ignore[arg-type]


def test_profiles_of_training_alone_are_held_more_strongly() -> None:
    found = coefficients(TRAINS, SERVES)
    pulls = _pulls(found, {TRAINS})
    strength = {each.named: pulls[place, place] for place, each in enumerate(found)}
    assert strength == {TRAINS: PULL_IN_TRAINING, SERVES: PULL}
    assert PULL_IN_TRAINING > PULL
    assert np.count_nonzero(pulls) == 2


def test_a_profile_is_held_near_the_one_that_it_extends() -> None:
    found = coefficients(TRAINS, CHILD)
    pulls = _pulls(found, {TRAINS, CHILD})
    place, parent = ([each.named for each in found].index(named) for named in (CHILD, TRAINS))
    assert pulls[place, place] == -pulls[place, parent] == PULL_IN_TRAINING
    assert pulls[parent, place] == 0.0


def test_a_gpu_is_held_nearer_to_the_one_that_it_extends() -> None:
    found = coefficients(("gpu", "H100-SXM"), ("gpu", "H200-SXM"), path=("kernel_gap",))
    pulls = _pulls(found, set())
    parent, place = ([each.named[1] for each in found].index(name) for name in ("H100-SXM", "H200-SXM"))
    assert pulls[place, place] == -pulls[place, parent] == PULL_TO_RELATIVES > pulls[parent, parent] == PULL
    assert pulls[parent, place] == 0.0


def test_the_memory_of_a_gpu_may_differ_from_that_of_the_one_that_it_extends() -> None:
    both = coefficients_of([("gpu", "H100-SXM"), ("gpu", "H200-SXM")])
    found = [each for each in both if each.path == ("efficiency", "gemm", "fp8")]
    pulls = _pulls(found, set())
    held = {each.column: pulls[place, place] for place, each in enumerate(found) if each.named[1] == "H200-SXM"}
    assert held == {"compute": PULL_TO_RELATIVES, "memory": PULL}


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
