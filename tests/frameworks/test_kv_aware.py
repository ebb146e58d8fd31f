"""The KV router of Dynamo: the costs of its documentation, and draws by their softmax."""

from __future__ import annotations

from collections import Counter
from math import exp
from types import SimpleNamespace
from typing import Any

import pytest

from frameworks.kv_aware import KVAware
from frameworks.round_robin import RoundRobin
from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.requests import RequestTable
from tests.helpers.reference_serving import Limits
from tests.helpers.serving_harness import serve

BLOCK = 16


class Seen(SimpleNamespace):
    """What the router sees of a replica."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def replica(cached_blocks: int, used_blocks: int, prompt_blocks: int = 10) -> Any:
    """A replica with cached blocks of every prompt, and blocks in use."""
    return Seen(
        kv=PagedKVCache(1000, BLOCK),
        free_blocks=lambda: 1000 - used_blocks,
        cached_tokens=lambda _: cached_blocks * BLOCK,
        sequences=SimpleNamespace(prompt_tokens=[prompt_blocks * BLOCK] * 10_000, priority=[]),
        now_s=0.0,
        prompt_watchers=[],
    )


def test_the_costs_are_those_of_dynamos_documentation() -> None:
    """Ten blocks of a prompt, of which 2, 5, 8 are cached; decode blocks with those of the prompt are 10, 5, 9."""
    replicas = [replica(2, 10 - 8), replica(5, 5 - 5), replica(8, 9 - 2)]
    router = KVAware(replicas, 0)
    assert [router.cost(each, router.load.new_tokens(each, 0)) for each in replicas] == [18.0, 10.0, 11.0]
    assert router.route(0) is replicas[1]
    heavy = KVAware(replicas, 0, KVAware.Options(overlap_score_weight=2.0))
    assert heavy.route(0) is replicas[2], "8 * 2 + 10, 5 * 2 + 5, 2 * 2 + 9"
    assert KVAware(replicas, 0, KVAware.Options(overlap_score_weight=0.0)).route(0) is replicas[1]


def test_prompts_without_a_first_token_count_until_they_have_it() -> None:
    replicas = [replica(0, 0), replica(0, 0)]
    router = KVAware(replicas, 0)
    assert [replicas.index(router.route(request)) for request in range(4)] == [0, 1, 0, 1]
    replicas[1].sequences.generated_tokens = [1] * 10
    for told in replicas[1].prompt_watchers:
        told(1)
        told(3)
    assert [router.load.tokens(each) for each in replicas] == [320, 0]
    assert router.route(4) is replicas[1]


def test_a_temperature_draws_by_the_softmax_of_scaled_costs() -> None:
    router = KVAware([replica(0, 0)], 3)
    places = Counter(router.draw_by_cost([18.0, 10.0, 11.0], 0.5) for _ in range(4000))
    weights = [exp(-(cost - 10) / 8 / 0.5) for cost in (18, 10, 11)]
    for place, weight in enumerate(weights):
        assert places[place] / 4000 == pytest.approx(weight / sum(weights), abs=0.03)
    even = [router.draw_by_cost([1.0, 1.0], 0.1) for _ in range(1000)]
    assert 400 < sum(even) < 600
    assert router.draw_by_cost([3.0, 1.0, 1.0]) == 1


def test_conversations_find_more_of_their_history_than_in_turn() -> None:
    """Six conversations of four turns on three replicas, each turn after the one before."""
    count, turns = 6, 4
    prompts = [20 * (turn + 1) for _ in range(count) for turn in range(turns)]
    requests = RequestTable(
        sorted(1e-5 * number for number in range(count) for _ in range(turns)),
        prompts,
        [4] * len(prompts),
        after=[place - 1 if place % turns else -1 for place in range(len(prompts))],
        hash_ids=[
            tuple(1000 * (place // turns) + block for block in range(tokens // 4))
            for place, tokens in enumerate(prompts)
        ],
        hash_block_tokens=4,
    )
    hits: dict[Any, int] = {}
    for router in (KVAware, RoundRobin):
        served = serve(requests, Limits(num_blocks=1000), router=router, replicas=3, prefix_caching=True)
        hits[router] = sum(found for _, found, _, _ in served.lookups)
    assert hits[KVAware] > 1.5 * hits[RoundRobin]
