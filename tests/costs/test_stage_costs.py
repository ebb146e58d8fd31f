"""Steps in the stages of a pipeline: lines by context give what each stage's pass takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.costs.pass_cost import PassCost
from simsys.costs.stage_costs import StageCosts, woven
from simsys.model.batch import Batch
from simsys.model.work import Precision
from simsys.parallel.replica import replica_stages
from tests.costs.test_pass_cost import GPT, PER_LAYER_S, REAL, per_byte

HOP_S = 1e-9
"""Seconds by which each token prolongs a hop."""


def stage_costs(stages: int) -> StageCosts:
    plans = replica_stages(GPT, tensor=2, stages=stages)
    costs = [PassCost(plan, REAL, Precision(), PER_LAYER_S, per_byte) for plan in plans]
    return StageCosts(costs, lambda tokens: [tokens * HOP_S] * (stages - 1))


@given(st.sampled_from([1, 2, 7, 64]), st.sampled_from([1, 30, 1000, 10**6]), st.sampled_from([1, 2, 4]))
def test_the_line_of_a_context_gives_what_a_step_of_it_takes(sequences: int, context: int, stages: int) -> None:
    costs = stage_costs(stages)
    lines, until = costs.decoding(sequences).at(context)
    batch = Batch(sequences, sequences, 0.0, 0.0, context, sequences)
    exactly, exchange_s = costs.step(batch)
    assert len(lines) == 2 * stages - 1
    assert [fixed_s + slope_s * context for fixed_s, slope_s in lines] == pytest.approx(
        [each_s for each_s, _ in exactly]
    )
    assert costs.decoding(sequences).exchange_s == pytest.approx(exchange_s)
    assert until > context


def test_channels_stand_between_stages() -> None:
    assert woven(["a", "b", "c"], ["ab", "bc"]) == ["a", "ab", "b", "bc", "c"]
    assert stage_costs(4).step(Batch(8.0))[0][1] == (8.0 * HOP_S, 0.0)
