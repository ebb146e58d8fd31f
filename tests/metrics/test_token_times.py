"""The gaps of every request are those of its tokens."""

from __future__ import annotations

import numpy as np
import pytest

from simsys.metrics.token_times import gaps_by_request
from tests.helpers.played_serving import play


@pytest.mark.parametrize("mixes", [True, False])
@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_gaps_are_those_of_the_tokens_one_by_one(seed: int, replicas: int, mixes: bool) -> None:
    played = play(seed, replicas=replicas, mixes=mixes)
    found = gaps_by_request(played.collector.log)
    assert found is not None
    assert found[-1] == [], "a request that was rejected has none"
    for gaps_s, tokens_s in zip(found[:-1], played.tokens_s[:-1], strict=True):
        assert gaps_s == pytest.approx(np.diff(tokens_s).tolist())


def test_nothing_is_made_up_where_steps_do_not_explain_the_tokens() -> None:
    collector = play(0).collector
    collector.log.requests.output_tokens[3] += 1
    assert gaps_by_request(collector.log) is None
