"""Where the shipped routers send requests."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frameworks.central_queue import CentralQueue
from frameworks.least_kv import LeastKV
from frameworks.least_outstanding import LeastOutstanding
from frameworks.random import Random
from frameworks.round_robin import RoundRobin
from simsys.framework import Router
from simsys.serving.batch_wait import BatchWait
from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.requests import RequestTable
from simsys.testing import toy_requests
from tests.helpers.reference_serving import Limits
from tests.helpers.serving_harness import serve

ROUTERS = (CentralQueue, LeastKV, LeastOutstanding, Random, RoundRobin)
AMPLE = Limits(num_blocks=10_000, max_num_seqs=2)


@dataclass
class Busy:
    """What routers see of a replica."""

    outstanding: int = 0
    free: int = 0
    grown: int = 0
    got: list[int] = field(default_factory=list)

    def free_blocks(self) -> int:
        return self.free

    @property
    def kv(self) -> PagedKVCache:
        """Of which it had some more free when its run of steps began."""
        cache = PagedKVCache(1000, 16)
        cache.free_blocks = self.free + self.grown
        return cache


def routed(router: type[Router], replicas: list[Any], count: int, seed: int = 0) -> list[int]:
    made = router(replicas, seed)
    places = {id(replica): place for place, replica in enumerate(replicas)}
    return [places[id(made.route(request))] for request in range(count)]


def ranks_of(
    router: type[Router], requests: RequestTable, replicas: int, limits: Limits = AMPLE, **more: Any
) -> list[int]:
    """The replica that has worked for each request, by what it was doing when the request had its first token."""
    served = serve(requests, limits, router=router, replicas=replicas, **more)
    first = served.times("first token")
    return [
        next(op.rank for op, _, ended_s in served.passes if ended_s == first[request] and op.batch.attention_pairs)
        for request in range(len(requests))
    ]


def test_round_robin_deals_requests_out_in_turn() -> None:
    replicas: list[Any] = [Busy(), Busy(), Busy()]
    assert routed(RoundRobin, replicas, 7) == [0, 1, 2, 0, 1, 2, 0]


def test_round_robin_counts_requests_that_are_refused() -> None:
    requests = RequestTable([0.0, 1e-9, 2e-9], [4, 400, 4], [2, 2, 2])
    served = serve(requests, Limits(num_blocks=100, max_context_tokens=50), replicas=2)
    assert {op.rank for op, _, _ in served.passes} == {0}


def test_random_choices_are_even_and_depend_on_the_seed_alone() -> None:
    replicas: list[Any] = [Busy() for _ in range(4)]
    one, again, other = (routed(Random, replicas, 4_000, seed) for seed in (1, 1, 2))
    assert one == again != other
    assert all(900 < count < 1_100 for count in Counter(one).values())


@pytest.mark.parametrize(("outstanding", "chosen"), [([3, 1, 2], 1), ([2, 1, 1], 1), ([0, 0, 0], 0)])
def test_the_fewest_requests_win(outstanding: list[int], chosen: int) -> None:
    assert routed(LeastOutstanding, [Busy(count) for count in outstanding], 1) == [chosen]


@pytest.mark.parametrize(("free", "chosen"), [([3, 9, 5], 1), ([9, 3, 9], 2), ([4, 4, 4], 2)])
def test_the_emptiest_cache_wins_and_of_equal_ones_the_shortest_queue(free: list[int], chosen: int) -> None:
    replicas = [Busy(outstanding, blocks) for outstanding, blocks in zip([5, 4, 3], free, strict=True)]
    assert routed(LeastKV, replicas, 1) == [chosen]


@given(
    st.lists(st.builds(Busy, st.integers(0, 3), st.integers(0, 4), grown=st.integers(0, 4)), min_size=1, max_size=8)
)
def test_looking_at_few_replicas_finds_the_emptiest_of_all(replicas: list[Busy]) -> None:
    best = max(replicas, key=lambda replica: (replica.free_blocks(), -replica.outstanding))
    assert LeastKV(cast("list[Any]", replicas), 0).route(0) is best


def test_of_equal_replicas_the_first_wins_in_whatever_order_they_are_looked_at() -> None:
    equal: list[Any] = [Busy(free=3), Busy(free=3), Busy(free=3, grown=2)]
    assert routed(LeastKV, equal, 1) == [0]
    assert routed(LeastOutstanding, equal, 1) == [0]


def test_requests_that_are_held_back_count_as_outstanding() -> None:
    """Both replicas decode and let six prompts wait for each other; they get three each."""
    arrivals_s = [0.0, 1e-5, *(2e-5 + 1e-9 * place for place in range(6))]
    requests = RequestTable(arrivals_s, [8] * 8, [40, 40, *[2] * 6])
    limits = Limits(num_blocks=10_000, max_num_seqs=8)
    served = serve(
        requests, limits, router=LeastOutstanding, replicas=2, intake=lambda: BatchWait(steps=20, tokens=1000)
    )
    prompt_tokens = Counter[int]()
    for op, _, _ in served.passes:
        prompt_tokens[op.rank] += int(op.batch.tokens - op.batch.decode_sequences)
    assert prompt_tokens == {0: 4 * 8, 1: 4 * 8}


def test_a_request_goes_to_the_replica_that_is_free() -> None:
    requests = RequestTable([0.0, 1e-6, 2e-3], [4, 4, 4], [900, 20, 4])
    assert ranks_of(LeastOutstanding, requests, 2) == [0, 1, 1]
    assert ranks_of(LeastKV, requests, 2) == [0, 1, 1]
    assert ranks_of(RoundRobin, requests, 2) == [0, 1, 0]


def test_free_blocks_are_those_of_this_moment_within_a_run() -> None:
    seen: list[tuple[float, int, int]] = []

    class Watching(LeastKV):
        def route(self, request: int) -> Any:
            seen.append((self.replicas[0]._env.now, self.replicas[0].free_blocks(), self.replicas[0].outstanding))
            return self.replicas[0]

    requests = RequestTable([0.0, 1e-3], [8, 8], [2_000, 1])
    served = serve(requests, Limits(num_blocks=10_000, block_size=4), router=Watching)
    now_s, free, outstanding = seen[1]
    begun = sum(started_s < now_s for _, started_s, _ in served.passes)
    cached = 8 + (begun - 2)  # the prompt, and what the decode steps that have ended have added
    assert (free, outstanding) == (10_000 - -(-cached // 4), 1)


@pytest.mark.parametrize("router", ROUTERS)
def test_every_replica_works(router: type[Router]) -> None:
    served = serve(toy_requests(60, seed=2), AMPLE, router=router, replicas=3)
    assert {op.rank for op, _, _ in served.passes} == {0, 1, 2}


def test_replicas_whose_ends_are_not_known_are_told_once_of_a_request_in_the_central_queue() -> None:
    """They ask their schedulers themselves at the ends of their steps."""
    told: list[tuple[int, int]] = []
    waiting = deque[int]()

    def replica(rank: int) -> Any:
        scheduler = SimpleNamespace(waiting=waiting, wants=lambda request, tokens: True)
        stepper = SimpleNamespace(next_s=lambda: None)
        return SimpleNamespace(
            rank=rank,
            scheduler=scheduler,
            stepper=stepper,
            left=5,
            tokens=1,
            copying=False,
            now_s=1.0,
            notice=lambda request: told.append((rank, request)),
        )

    router = CentralQueue([replica(rank) for rank in range(3)], 0)
    router.queue.append(7)
    assert sorted(told) == [(0, 7), (1, 7), (2, 7)]


def test_a_central_queue_asks_idle_replicas_in_their_order() -> None:
    """Of the two that rest when the last request comes, the later one in the order has been found at rest first."""
    arrivals_s, prompts, outputs = [0.0, 1e-9, 2e-9, 3e-9, 1e-5, 1e-3], [8, 32, 4, 4, 8, 8], [2000, 30, 3, 2, 2, 2]
    requests, seat = RequestTable(arrivals_s, prompts, outputs), replace(AMPLE, max_num_seqs=1)
    assert ranks_of(CentralQueue, requests, 3, limits=seat) == [0, 1, 2, 2, 2, 1]
