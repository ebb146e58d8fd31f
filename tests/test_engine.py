"""A run of steps as one event is, to the last bit, what its steps are one by one; and what both must keep to."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reference_serving import Limits
from serving_harness import HOST, SLOW_HOST, Served, serve
from weighted_fair_queueing import WeightedFairQueueing

from frameworks.central_queue import CentralQueue
from frameworks.chunked_prefill import ChunkedPrefill
from frameworks.least_kv import LeastKV
from frameworks.least_outstanding import LeastOutstanding
from frameworks.orca import Orca
from frameworks.prefill_first import PrefillFirst
from frameworks.priority import Priority
from frameworks.random import Random
from frameworks.round_robin import RoundRobin
from frameworks.shortest_job_first import ShortestJobFirst
from frameworks.static_batching import StaticBatching
from frameworks.vllm_v0 import VLLMv0
from simsys.framework import Router, Scheduler
from simsys.serving.requests import RequestTable
from tests.thorough import cases

POLICIES = (
    *(ChunkedPrefill, Orca, PrefillFirst, Priority, ShortestJobFirst, StaticBatching),
    *(VLLMv0, WeightedFairQueueing),
)
ROUTERS = (CentralQueue, LeastKV, LeastOutstanding, Random, RoundRobin)


def workload(rng: random.Random) -> RequestTable:
    """Up to 40 requests of three tenants and priorities; some after others have ended, or only so many at once."""
    count = rng.randint(1, 40)
    gap_s = rng.choice([1e-6, 1e-5, 1e-4, 1e-3])
    longest = rng.choice([1, 4, 60])
    table = RequestTable(
        sorted(rng.choice([0.0, rng.random() * count * gap_s]) for _ in range(count)),
        [rng.randint(1, rng.choice([2, 40, 90])) for _ in range(count)],
        [rng.randint(1, longest) for _ in range(count)],
        priority=[rng.randint(0, 2) for _ in range(count)],
        tenant=[rng.randint(0, 2) for _ in range(count)],
    )
    kind = rng.choice(["open", "sessions", "closed"])
    if kind == "sessions":
        after = [rng.choice([-1, rng.randrange(place)]) if place else -1 for place in range(count)]
        return replace(table, after=after, think_s=[rng.choice([0.0, rng.random() * gap_s]) for _ in range(count)])
    return replace(table, concurrency=rng.randint(1, 6)) if kind == "closed" else table


def limits(rng: random.Random) -> Limits:
    """Small caches and batches, so that blocks, sequences and tokens all run out."""
    block_size, seqs = rng.choice([1, 2, 4, 16]), rng.randint(1, 12)
    return Limits(
        num_blocks=rng.randint(1, max(2, rng.choice([120, 1200]) // block_size)),
        block_size=block_size,
        max_num_seqs=seqs,
        max_num_batched_tokens=seqs + rng.choice([0, 1, 7, 30, 100]),
        long_prefill_token_threshold=rng.choice([0, 0, 1, 3, 8]),
        max_context_tokens=rng.choice([0, 50]),
        reserves_prompts=seqs % 2 == 0,
    )


def both(
    seed: int, policy: type[Scheduler], router: type[Router], replicas: int
) -> tuple[RequestTable, Served, Served]:
    rng = random.Random(seed)
    requests, settings = workload(rng), limits(rng)
    beside = seed % 2 == 1
    jump, steps = (
        serve(
            requests,
            settings,
            policy=policy,
            router=router,
            replicas=replicas,
            seed=seed,
            level=level,
            host=SLOW_HOST if beside else HOST,
            beside=beside,
        )
        for level in ("medium", "stepping")
    )
    return requests, jump, steps


@settings(max_examples=cases(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 1_000_000),
    policy=st.sampled_from(POLICIES),
    router=st.sampled_from(ROUTERS),
    replicas=st.integers(1, 3),
)
def test_a_jump_is_bit_identical_to_its_steps(
    seed: int, policy: type[Scheduler], router: type[Router], replicas: int
) -> None:
    _, jump, steps = both(seed, policy, router, replicas)
    assert jump.history() == steps.history()
    assert jump.arrived == steps.arrived
    assert sorted(jump.steps_told()) == [pytest.approx(step, rel=1e-9) for step in sorted(steps.steps_told())]
    assert [kv.peak_blocks for kv in jump.kvs] == [kv.peak_blocks for kv in steps.kvs]
    assert set(steps.runs) <= {1}
    assert jump.scheduled <= steps.scheduled + len(jump.arrived)
    assert jump.busy_s == pytest.approx(steps.busy_s, rel=1e-9)


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 1_000_000),
    policy=st.sampled_from(POLICIES),
    router=st.sampled_from(ROUTERS),
    replicas=st.integers(1, 3),
)
def test_conservation(seed: int, policy: type[Scheduler], router: type[Router], replicas: int) -> None:
    requests, served, _ = both(seed, policy, router, replicas)
    settings = limits_of(seed)
    finished, rejected, first = (served.times(event) for event in ("finished", "rejected", "first token"))
    ends = Counter(request for event, request, _ in served.events if event in ("finished", "rejected"))
    assert ends == dict.fromkeys(range(len(requests)), 1), "every request ends exactly once"
    assert set(served.arrived) == set(range(len(requests)))
    assert served.reasons.keys() == rejected.keys()
    assert all(reason for reason in served.reasons.values())
    assert sum(step.batch.logits for step in served.steps) == sum(requests.output_tokens[r] for r in finished)
    preempted = len(served.times("preempted")) > 0
    prompt_tokens = sum(tokens for step in served.steps for _, tokens in step.chunks)
    asked = sum(requests.prompt_tokens[r] for r in finished)
    assert prompt_tokens > asked if preempted else prompt_tokens == asked
    assert all(kv.free_blocks == settings.num_blocks and not kv.held for kv in served.kvs)
    assert all(served.arrived[r] < first[r] <= finished[r] for r in finished)
    assert all(served.arrived[r] <= time_s for event, r, time_s in served.events)
    assert all(step.batch.tokens <= settings.max_num_batched_tokens for step in served.steps)
    assert max(served.running, default=0) <= settings.max_num_seqs
    for rank in range(replicas):
        ends_s = [(started_s, ended_s) for op, started_s, ended_s in served.passes if op.rank == rank]
        assert all(start < end for start, end in ends_s)
        assert all(end <= start for (_, end), (start, _) in pairwise(ends_s)), "steps do not overlap"


def limits_of(seed: int) -> Limits:
    rng = random.Random(seed)
    workload(rng)
    return limits(rng)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("router", ROUTERS)
def test_the_levels_give_the_same_times(policy: type[Scheduler], router: type[Router]) -> None:
    for seed in range(4):
        rng = random.Random(seed)
        requests, settings, beside = workload(rng), limits(rng), seed % 2 == 1
        host = SLOW_HOST if beside else HOST
        high, medium = (
            serve(requests, settings, policy=policy, router=router, replicas=2, level=level, host=host, beside=beside)
            for level in ("high", "medium")
        )
        expected = {(event, request): time_s for event, request, time_s in medium.events}
        assert {(event, request): time_s for event, request, time_s in high.events} == pytest.approx(
            expected, rel=1e-9
        )


def test_the_random_cases_cover_what_can_happen() -> None:
    wanted = {"admitted", "first token", "finished", "preempted", "rejected", "jump", "jump over chunks"}
    seen: set[str] = set()
    for seed in range(150):
        if seen >= wanted:
            return
        rng = random.Random(seed)
        requests, settings = workload(rng), limits(rng)
        served = serve(requests, settings)
        seen |= {event for event, _, _ in served.events}
        chunks = [set(step.chunks) for step in served.steps]
        seen |= {"jump" for count in served.runs if count > 1}
        seen |= {"jump over chunks" for before, after in pairwise(chunks) if before and before == after}
    assert seen >= wanted


def test_a_long_output_costs_no_more_events_than_a_short_one() -> None:
    ample = Limits(num_blocks=10_000, max_num_seqs=4)
    short, long = (serve(RequestTable([0.0], [8], [output]), ample) for output in (10, 10_000))
    assert short.scheduled == long.scheduled
    assert long.runs == [1, 9_999]


def test_a_long_prompt_in_full_chunks_is_one_run() -> None:
    served = serve(RequestTable([0.0], [1000], [1]), Limits(num_blocks=1000, max_num_batched_tokens=10))
    assert served.runs == [99, 1]


def test_an_arrival_ends_the_run_at_the_next_step_only_if_it_could_be_admitted() -> None:
    requests = RequestTable([0.0, 1e-4], [8, 8], [1000, 1])
    open_, full = (serve(requests, Limits(num_blocks=10_000, max_num_seqs=seqs)) for seqs in (2, 1))
    assert len(open_.runs) > 3
    assert full.runs == [1, 999, 1]
    admitted_s = open_.times("admitted")[1]
    assert any(ended_s == admitted_s for _, _, ended_s in open_.passes)
    assert not any(1e-4 <= ended_s < admitted_s for _, _, ended_s in open_.passes)


def test_a_run_ends_before_the_step_that_finds_no_block() -> None:
    served = serve(RequestTable([0.0, 0.0], [8, 8], [8, 8]), Limits(num_blocks=7, block_size=4))
    # The prompts; 4 steps until each of the two needs a block beyond the 7; then one of them goes on alone.
    assert served.runs[:2] == [1, 4]
    assert served.times("preempted")
