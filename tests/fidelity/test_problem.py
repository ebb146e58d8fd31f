"""The regularisation of a fit."""

from __future__ import annotations

import numpy as np

from simsys.fidelity.coefficients import Coefficient, coefficients_of
from simsys.fidelity.problem import PULL, PULL_IN_TRAINING, _pulls

TRAINS, SERVES = ("engine", "megatron"), ("engine", "vllm")
CHILD = ("engine", "deepspeed")


def coefficients(*named: tuple[str, str]) -> list[Coefficient]:
    return [each for each in coefficients_of(named) if each.path == ("per_layer",)]  # type: ignore[arg-type]


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
