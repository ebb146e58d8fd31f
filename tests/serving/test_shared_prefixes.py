"""Serving with prefix caching and swapping: what must hold for any workload, and what theory says of simple ones."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from frameworks.chunked_prefill import ChunkedPrefill
from frameworks.prefix_affinity import PrefixAffinity
from simsys.framework import Router, Scheduler
from simsys.serving.prefix_cache import PrefixCache
from simsys.serving.requests import RequestTable
from tests.helpers.random_serving import POLICIES, ROUTERS, limits, workload
from tests.helpers.reference_serving import Limits
from tests.helpers.serving_harness import Served, serve

ALL_ROUTERS = (*ROUTERS, PrefixAffinity)
cases = given(
    seed=st.integers(0, 1_000_000),
    policy=st.sampled_from(POLICIES),
    router=st.sampled_from(ALL_ROUTERS),
    replicas=st.integers(1, 3),
    prefix_caching=st.booleans(),
    swap_blocks=st.sampled_from([None, 0, 5, 1000]),
)
thorough = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def with_ids(rng: random.Random, requests: RequestTable) -> RequestTable:
    """Some prompts begin like an earlier one, and turns of conversations like the one before."""
    every, unused = rng.choice([1, 2, 3, 4, 8, 20]), 0
    ids: list[tuple[int, ...]] = []
    for request, tokens in enumerate(requests.prompt_tokens):
        whole = tokens // every
        before = requests.after[request] if requests.after else -1
        other = ids[before] if before >= 0 else ids[rng.randrange(request)] if request else ()
        shared = other[: min(whole, len(other) if before >= 0 else rng.randint(0, len(other)))]
        own = rng.randint(0, whole - len(shared))
        ids.append((*shared, *range(unused, unused + own)))
        unused += own
    return replace(requests, hash_ids=ids, hash_block_tokens=every)


def case(seed: int) -> tuple[RequestTable, Limits]:
    rng = random.Random(seed)
    requests, settings = workload(rng), limits(rng)
    return with_ids(rng, requests), settings


def copies(served: Served) -> list[tuple[float, float, int, str, float]]:
    return sorted((start_s, end_s, op.rank, op.name, op.nbytes) for op, start_s, end_s in served.copies)


@thorough
@cases
def test_runs_are_bit_identical_to_single_steps(
    seed: int,
    policy: type[Scheduler],
    router: type[Router],
    replicas: int,
    prefix_caching: bool,
    swap_blocks: int | None,
) -> None:
    requests, settings = case(seed)
    runs, steps = (
        serve(
            requests,
            settings,
            policy=policy,
            router=router,
            replicas=replicas,
            seed=seed,
            level=level,
            prefix_caching=prefix_caching,
            swap_blocks=swap_blocks,
        )
        for level in ("medium", "stepping")
    )
    assert runs.history() == steps.history()
    assert sorted(runs.lookups) == sorted(steps.lookups)
    assert copies(runs) == copies(steps)
    assert [kv.peak_blocks for kv in runs.kvs] == [kv.peak_blocks for kv in steps.kvs]
    assert set(steps.runs) <= {1}


@thorough
@cases
def test_conservation(
    seed: int,
    policy: type[Scheduler],
    router: type[Router],
    replicas: int,
    prefix_caching: bool,
    swap_blocks: int | None,
) -> None:
    requests, settings = case(seed)
    served = serve(
        requests,
        settings,
        policy=policy,
        router=router,
        replicas=replicas,
        seed=seed,
        prefix_caching=prefix_caching,
        swap_blocks=swap_blocks,
    )
    ends = Counter(request for event, request, _ in served.events if event in ("finished", "rejected"))
    assert ends == dict.fromkeys(range(len(requests)), 1), "every request ends exactly once"
    finished = served.times("finished")
    assert sum(step.batch.logits for step in served.steps) == sum(requests.output_tokens[r] for r in finished)
    assert all(step.batch.tokens <= settings.max_num_batched_tokens for step in served.steps)
    assert max(served.running, default=0) <= settings.max_num_seqs
    for kv in served.kvs:
        assert kv.free_blocks == settings.num_blocks
        assert not kv.held
        if isinstance(kv, PrefixCache):
            assert 0 <= kv.cached_blocks <= settings.num_blocks
    assert all(space.free_blocks == swap_blocks for space in served.spaces)
    assert all(hits < asked for _, hits, asked, _ in served.lookups)
    assert all(hits % settings.block_size == 0 for _, hits, _, _ in served.lookups)
    first = {request: hits for request, hits, asked, _ in reversed(served.lookups)}
    if prefix_caching and swap_blocks is None:
        assert Counter(r for r, *_ in served.lookups) == Counter(r for e, r, _ in served.events if e == "admitted")
    if not served.times("preempted"):
        prompt_tokens = sum(tokens for step in served.steps for _, tokens in step.chunks)
        assert prompt_tokens == sum(requests.prompt_tokens[r] - first.get(r, 0) for r in finished)
    for rank in range(replicas):
        work = [(started_s, ended_s) for op, started_s, ended_s in served.passes if op.rank == rank]
        work += [(started_s, ended_s) for op, started_s, ended_s in served.copies if op.rank == rank]
        for (_, end_s), (start_s, _) in pairwise(sorted(work)):
            assert end_s <= start_s * (1 + 1e-12), "steps wait for copies"


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("swap_blocks", [None, 50])
def test_the_levels_give_the_same_times(policy: type[Scheduler], swap_blocks: int | None) -> None:
    for seed in range(6):
        requests, settings = case(seed)
        high, medium = (
            serve(
                requests,
                settings,
                policy=policy,
                router=PrefixAffinity,
                replicas=2,
                level=level,
                prefix_caching=True,
                swap_blocks=swap_blocks,
            )
            for level in ("high", "medium")
        )
        expected = {(event, request): time_s for event, request, time_s in medium.events}
        assert {(event, request): time_s for event, request, time_s in high.events} == pytest.approx(
            expected, rel=1e-9
        )


def test_the_random_cases_cover_what_can_happen() -> None:
    wanted = {
        "preempted",
        "rejected",
        "hit",
        "miss",
        "swap_out",
        "swap_in",
        "run",
        "hit again",
        "looked up again",
    }
    seen: set[str] = set()
    for seed in range(100):
        if seen >= wanted:
            return
        requests, settings = case(seed)
        for swap_blocks in (None, 5):
            served = serve(requests, settings, prefix_caching=True, swap_blocks=swap_blocks)
            seen |= {event for event, _, _ in served.events}
            seen |= {"hit" if hits else "miss" for _, hits, _, _ in served.lookups}
            seen |= {op.name for op, _, _ in served.copies}
            seen |= {"run" for count in served.runs if count > 1}
            again = Counter(request for request, *_ in served.lookups)
            seen |= {"hit again" for r, hits, asked, _ in served.lookups if hits and asked > requests.prompt_tokens[r]}
            seen |= {"looked up again" for count in again.values() if count > 1}
    assert seen >= wanted


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1_000_000), policy=st.sampled_from(POLICIES), router=st.sampled_from(ROUTERS))
def test_where_nothing_is_shared_caching_changes_nothing(
    seed: int, policy: type[Scheduler], router: type[Router]
) -> None:
    rng = random.Random(seed)
    requests, settings = replace(workload(rng), after=[], think_s=[]), limits(rng)
    every, starts = rng.randint(1, 9), 0
    ids = []
    for tokens in requests.prompt_tokens:
        ids.append(tuple(range(starts, starts + tokens // every)))
        starts += len(ids[-1])
    requests = replace(requests, hash_ids=ids, hash_block_tokens=every)
    without, cached = (
        serve(requests, settings, policy=policy, router=router, replicas=2, prefix_caching=prefix_caching)
        for prefix_caching in (False, True)
    )
    assume(not without.times("preempted"))  # who is preempted finds what it had
    assert without.history() == cached.history()
    assert [kv.peak_blocks for kv in without.kvs] == [kv.peak_blocks for kv in cached.kvs]


AMPLE = Limits(num_blocks=10_000, block_size=4, max_num_seqs=64, max_num_batched_tokens=64)


def prompt_tokens(served: Served) -> int:
    return sum(tokens for step in served.steps for _, tokens in step.chunks)


@pytest.mark.parametrize("gap_s", [0.0, 1e-3])
def test_a_system_prompt_is_computed_once(gap_s: float) -> None:
    count, system, own = 20, 32, 7
    ids = tuple(range(system // 4))
    requests = RequestTable(
        [place * gap_s for place in range(count)],
        [system + own] * count,
        [5] * count,
        hash_ids=[ids] * count,
        hash_block_tokens=4,
    )
    without, cached = (serve(requests, AMPLE, prefix_caching=prefix_caching) for prefix_caching in (False, True))
    assert prompt_tokens(without) == count * (system + own)
    assert prompt_tokens(cached) == system + count * own
    assert [hits for _, hits, _, _ in cached.lookups] == [0] + [system] * (count - 1)
    for request in range(1, count):
        assert cached.times("first token")[request] < without.times("first token")[request]


def test_a_prompt_that_is_cached_whole_still_computes_its_last_block() -> None:
    requests = RequestTable([0.0, 1.0], [16, 16], [1, 1], hash_ids=[(0, 1, 2, 3)] * 2, hash_block_tokens=4)
    served = serve(requests, AMPLE, prefix_caching=True)
    assert [step.chunks for step in served.steps] == [[(0, 16)], [(1, 4)]]


def test_a_conversation_finds_all_that_was_said() -> None:
    # 10 new tokens and an answer of 6 in each turn: prompts of 10, 26 and 42 tokens.
    ids = tuple(range(42 // 2))
    requests = RequestTable(
        [0.0, 0.0, 0.0],
        [10, 26, 42],
        [6, 6, 6],
        after=[-1, 0, 1],
        hash_ids=[ids[:5], ids[:13], ids],
        hash_block_tokens=2,
    )
    served = serve(requests, AMPLE, prefix_caching=True)
    # The last token of an answer is never computed: 15 and 31 tokens are, in whole blocks of 4.
    assert [hits for _, hits, _, _ in served.lookups] == [0, 12, 28]


def test_what_was_used_last_is_given_up_last() -> None:
    # Memory for three prompts; the first is used again before the fourth comes, so the second has to go.
    order = [0, 1, 2, 0, 3, 0, 2, 1]
    requests = RequestTable(
        [float(place) for place in range(len(order))],
        [9] * len(order),
        [1] * len(order),
        hash_ids=[(2 * which, 2 * which + 1) for which in order],
        hash_block_tokens=4,
    )
    served = serve(requests, replace(AMPLE, num_blocks=9), prefix_caching=True)
    assert [hits for _, hits, _, _ in served.lookups] == [0, 0, 0, 8, 0, 8, 8, 0]


def test_the_router_keeps_to_the_replica_that_knows_a_prompt_unless_it_is_busy() -> None:
    ids = [(0, 1), (2, 3), (0, 1), (2, 3), (0, 1)]
    requests = RequestTable([0.0, 0.0, 1.0, 2.0, 3.0], [9] * 5, [1] * 5, hash_ids=ids, hash_block_tokens=4)
    served = serve(requests, AMPLE, prefix_caching=True, router=PrefixAffinity, replicas=2)
    assert [hits for _, hits, _, _ in served.lookups] == [0, 0, 8, 8, 8]
    many = 80
    burst = RequestTable(
        [0.0] + [1.0] * many, [9] * (many + 1), [50] * (many + 1), hash_ids=[(0, 1)] * (many + 1), hash_block_tokens=4
    )
    busy = serve(burst, AMPLE, prefix_caching=True, router=PrefixAffinity, replicas=2)
    ranks = Counter(op.rank for op, _, _ in busy.passes)
    assert set(ranks) == {0, 1}


def test_preempted_requests_find_their_own_blocks() -> None:
    requests = RequestTable([0.0, 0.0], [8, 8], [12, 12])
    settings = Limits(num_blocks=8, block_size=4, max_num_batched_tokens=64)
    without, cached = (serve(requests, settings, prefix_caching=each) for each in (False, True))
    assert without.times("preempted")
    assert prompt_tokens(cached) < prompt_tokens(without)
    assert cached.lookups[-1][1] > 0


@pytest.mark.parametrize("policy", POLICIES)
def test_with_ample_host_memory_no_prompt_is_computed_twice(policy: type[Scheduler]) -> None:
    requests = RequestTable([0.0] * 6, [8] * 6, [20] * 6, priority=[0] * 6, tenant=[0] * 6)
    settings = Limits(num_blocks=14, block_size=4, max_num_batched_tokens=64)
    again, swapped = (serve(requests, settings, policy=policy, swap_blocks=blocks) for blocks in (0, 1000))
    preemptions = sum(event == "preempted" for event, _, _ in swapped.events)
    assert len(swapped.copies) <= 2 * preemptions
    # Who comes back processes its next token beside prompts.
    assert prompt_tokens(swapped) == 6 * 8 + preemptions
    assert prompt_tokens(again) >= prompt_tokens(swapped)
    assert bool(swapped.copies) == bool(preemptions)


def test_a_copy_takes_what_pcie_takes_and_the_next_step_waits() -> None:
    requests = RequestTable([0.0, 0.0], [8, 8], [12, 12])
    served = serve(
        requests,
        Limits(num_blocks=8, block_size=4, max_num_batched_tokens=64),
        policy=ChunkedPrefill,
        swap_blocks=1000,
    )
    (preempted_s,) = set(served.times("preempted").values())
    (out, started_s, ended_s), (back, _, back_s) = served.copies
    assert (out.name, back.name) == ("swap_out", "swap_in")
    assert started_s == preempted_s
    assert out.nbytes == back.nbytes
    # Bandwidth and latency of the toy device.
    assert ended_s - started_s == pytest.approx(1e-6 + out.nbytes / 1e9, rel=1e-6)
    assert min(start for _, start, _ in served.passes if start >= preempted_s) == ended_s
    assert min(start for _, start, _ in served.passes if start >= back_s) == back_s
