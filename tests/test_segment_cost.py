"""Durations of segments: what is kept, and what is computed anew for every batch."""

from __future__ import annotations

import pytest
from test_pass_cost import GPT, PER_LAYER_S, REAL

from simsys.executors import segment_cost
from simsys.executors.segment_cost import SegmentCost
from simsys.model.batch import Batch
from simsys.model.work import Precision
from simsys.parallel.passes import forward_pass


@pytest.mark.parametrize(
    ("batch", "again"),
    [(Batch(tokens=4.0, decode_sequences=4.0), 1), (Batch(tokens=4.0, attention_pairs=10.0), 2)],
    ids=["decode", "prompt"],
)
def test_only_attention_is_computed_anew_when_the_context_changes(
    batch: Batch, again: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = forward_pass(GPT).stretches[1].segments[0]
    cost = SegmentCost(layer, REAL, Precision(), PER_LAYER_S)
    asked: list[int] = []
    computed = segment_cost._seconds

    def counted(costs: list[segment_cost._OperatorCost], batch: Batch) -> float:
        asked[-1] += len(costs)
        return computed(costs, batch)

    monkeypatch.setattr(segment_cost, "_seconds", counted)
    for context in (10.0, 20.0, 30.0):
        asked.append(0)
        cost.compute_seconds(batch._replace(decode_context_tokens=context))
    assert asked == [len(layer.operators), again, again]
