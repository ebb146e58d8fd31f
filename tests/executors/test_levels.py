"""Levels of detail are combinations of components, each of which is one thing only."""

from __future__ import annotations

from abc import ABC
from itertools import product

import pytest

from simsys.collectives.choose import cheapest
from simsys.errors import InternalError, UsageError
from simsys.executors import LEVELS, MIXTURES, Combination, Links, combination
from simsys.executors.communication.closed_form import ClosedForms
from simsys.executors.execution_model import ExecutionModel
from simsys.executors.iterations.on_links import StretchedPrograms
from simsys.executors.levels import MEDIUM
from simsys.executors.steps.run_passes import MultiStepRuns
from simsys.model.work import Precision
from simsys.simulation import simulate
from simsys.testing import toy_platform
from tests.helpers.level_study_toys import jobs

ALL = {**LEVELS, **MIXTURES, **{f"medium, {links.value}": each for links, each in MEDIUM.items()}}


@pytest.mark.parametrize("each", ALL.values(), ids=ALL)
def test_no_component_inherits_from_two_others(each: Combination) -> None:
    for part in (each.computation, each.communication, each.passes, each.programs):
        for kind in part.__mro__:
            assert len([base for base in kind.__bases__ if base is not ABC]) <= 1 or kind is object


def test_each_mixture_has_one_abstraction_of_medium_or_both() -> None:
    high, medium = LEVELS["high"], LEVELS["medium"]
    kinds = {(each.computation, each.communication) for each in (high, *MIXTURES.values())}
    assert kinds == set(product((high.computation, medium.computation), (high.communication, medium.communication)))
    assert not any(each.one_per_role for each in MIXTURES.values())


def test_links_make_a_difference_at_medium_alone() -> None:
    assert len({combination("medium", links).communication for links in Links}) == len(Links)
    assert len({combination("high", links) for links in Links}) == 1


def test_programs_on_links_need_to_know_which_transfers_these_are() -> None:
    wrong = Combination(LEVELS["medium"].computation, ClosedForms, MultiStepRuns, StretchedPrograms)
    with pytest.raises(InternalError, match="the users with transfers on links"):
        wrong(toy_platform(1), ExecutionModel(cheapest, Precision()), [(0,)])


def test_jobs_that_share_a_cluster_have_a_level_of_detail_and_no_other_components() -> None:
    with pytest.raises(UsageError, match="not jobs that share a cluster"):
        simulate(jobs(), made_of=LEVELS["high"])
