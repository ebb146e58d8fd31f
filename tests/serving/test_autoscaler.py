"""Replicas that come and go: when, by hand; that nothing changes where they cannot; and what they cost."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frameworks.chunked_prefill import ChunkedPrefill
from frameworks.least_kv import LeastKV
from frameworks.least_outstanding import LeastOutstanding
from frameworks.priority import Priority
from frameworks.random import Random
from frameworks.round_robin import RoundRobin
from frameworks.vllm_v0 import VLLMv0
from simsys.framework import Router, Scheduler
from simsys.serving.autoscaler import ScalingRule
from simsys.serving.requests import RequestTable
from tests.helpers.random_serving import limits, workload
from tests.helpers.reference_serving import Limits
from tests.helpers.replica_harness import Toy, scaled
from tests.helpers.serving_harness import serve

ROUTERS = (LeastKV, LeastOutstanding, Random, RoundRobin)
ONE_SEAT = Limits(num_blocks=1000, block_size=4, max_num_seqs=1)
RULE = ScalingRule(1, 3, scale_up_queue=2.0, scale_down_idle_s=3e-3, startup_s=2.5e-3, interval_s=1e-3)


def step_load(count: int = 40) -> RequestTable:
    """Some requests at once, which one GPU serves one after another; each takes some 0.4 ms."""
    return RequestTable([1e-4] * count, [8] * count, [100] * count)


@pytest.mark.parametrize("level", ["high", "medium", "stepping"])
def test_a_step_load_starts_replicas_as_computed_by_hand(level: str) -> None:
    """At 1 ms more than 2 wait for the one that is paid for, at 2 ms more than 4 for the two; then three is the most.

    The first accepts requests at 3.5 ms and the second at 4.5 ms.
    """
    toy = scaled(step_load(), ONE_SEAT, RULE, replicas=4, level=level)
    ends_s = toy.served.times("finished")
    assert max(ends_s.values()) > 8e-3
    waiting = [sum(1 for end_s in ends_s.values() if end_s > look_s) - 1 for look_s in (1e-3, 2e-3)]
    assert waiting[0] > 2
    assert waiting[1] > 4
    expected = [(1, 1, 0.0), (1, 2, 1e-3), (1, 3, 2e-3), (2, 3, 3.5e-3), (3, 3, 4.5e-3)]
    assert toy.moves.changes[:5] == [(on, paid, pytest.approx(at_s)) for on, paid, at_s in expected]


def test_requests_go_only_to_replicas_that_are_on() -> None:
    first = step_load()
    requests = replace(
        first, arrival_s=[*first.arrival_s, 3.4e-3, 3.6e-3], prompt_tokens=[8] * 42, output_tokens=[100] * 42
    )
    toy = scaled(requests, ONE_SEAT, RULE, replicas=4, router=LeastOutstanding)
    used = {op.rank: started_s for op, started_s, _ in reversed(toy.served.passes)}
    assert used.keys() == {0, 1}
    assert used[1] == pytest.approx(3.6e-3), "the one that comes just before the second is on queues at the first"
    assert toy.served.times("admitted")[40] > toy.served.times("admitted")[41]


def test_what_is_idle_for_long_enough_is_turned_off_unless_it_would_be_started_again() -> None:
    """Nothing else comes during the burst: the two that were started are idle, but are kept while requests queue."""
    burst, late_s = step_load(), 10.0
    requests = RequestTable([*burst.arrival_s, late_s], [8] * 41, [100] * 41)
    toy = scaled(requests, ONE_SEAT, RULE, replicas=4)
    ends_s = [end_s for end_s in toy.served.times("finished").values() if end_s < late_s]

    def first_look_with_at_most(waiting: int) -> float:
        looks = (number * RULE.interval_s for number in range(1, 1000))
        return next(look_s for look_s in looks if sum(end_s > look_s for end_s in ends_s) - 1 <= waiting)

    off_s = [first_look_with_at_most(waiting) for waiting in (4, 2)]
    assert off_s[0] > 4.5e-3 + RULE.scale_down_idle_s
    assert toy.moves.changes[5:] == [(2, 2, pytest.approx(off_s[0])), (1, 1, pytest.approx(off_s[1]))]


def test_a_replica_is_idle_from_the_look_that_finds_it_so() -> None:
    """It is on from 1 ms and has one request; the first look after that counts, and 3 ms later it is turned off."""
    requests = RequestTable([1e-4] * 6 + [1.5e-3, 1.6e-3, 10.0], [8] * 9, [100] * 9)
    rule = replace(RULE, max_replicas=2, startup_s=0.0, scale_up_queue=0.5)
    toy = scaled(requests, ONE_SEAT, rule, replicas=2)
    last_s = max(ended_s for op, _, ended_s in toy.served.passes if op.rank == 1)
    found_s = math.ceil(last_s / RULE.interval_s) * RULE.interval_s
    assert found_s > 1.6e-3
    on_s, off_s = pytest.approx(1e-3), pytest.approx(found_s + RULE.scale_down_idle_s)
    assert toy.moves.changes == [(1, 1, 0.0), (1, 2, on_s), (2, 2, on_s), (1, 1, off_s)]


def with_a_few(few: float, *, interval_s: float = RULE.interval_s, second_s: Sequence[float] = ()) -> Toy:
    """A burst starts two more; then ten requests a millisecond keep all three busy, perhaps with a second burst."""
    steady_s = [1e-4 * number for number in range(1, 300)]
    times_s = sorted([*step_load().arrival_s, *steady_s, *second_s])
    requests = RequestTable(times_s, [8] * len(times_s), [100] * len(times_s))
    rule = replace(RULE, scale_up_queue=0.5, scale_down_requests=few, interval_s=interval_s)
    return scaled(requests, replace(ONE_SEAT, max_num_seqs=8), rule, replicas=4)


def test_a_replica_drains_when_the_others_would_do() -> None:
    busy, drained = with_a_few(0.0), with_a_few(8.0)
    assert [change[:2] for change in busy.moves.changes] == [(1, 1), (1, 2), (1, 3), (2, 3), (3, 3)], "none is idle"
    assert drained.moves.changes[:5] == busy.moves.changes
    drains, off = drained.moves.changes[5:7]
    assert [drains[:2], off[:2]] == [(2, 3), (2, 2)], "paid for until its last request has ended"
    last_s = max(ended_s for op, _, ended_s in drained.served.passes if op.rank == 2)
    assert drains[2] < last_s <= off[2] < drained.requests.arrival_s[-1]
    assert drained.served.times("finished").keys() == set(range(len(drained.requests)))


def test_replicas_drain_down_to_the_least_number() -> None:
    changes = with_a_few(20.0).moves.changes
    assert [active for active, _, _ in changes[4:]][:1] == [3]
    assert min(active for active, _, _ in changes[4:]) == RULE.min_replicas


def test_what_drains_takes_requests_again_at_once_when_they_queue() -> None:
    """Others queue as it drains; one that is off would need its start-up time."""
    interval_s = RULE.interval_s / 20
    changes = with_a_few(8.0, interval_s=interval_s).moves.changes
    place = next(place for place, (active, paid, _) in enumerate(changes) if (active, paid) == (2, 3) and place > 4)
    drains_s = changes[place][2]
    again = with_a_few(8.0, interval_s=interval_s, second_s=[drains_s + 0.5 * interval_s] * 100).moves.changes
    assert again[: place + 1] == changes[: place + 1]
    assert again[place + 1] == (3, 3, pytest.approx(drains_s + interval_s))


@pytest.mark.parametrize("gap_s", [1.0, 1000.0])
def test_a_gap_without_requests_costs_no_events(gap_s: float) -> None:
    requests = RequestTable([0.0, gap_s], [8, 8], [100, 100])
    toy, fixed = (scaled(requests, ONE_SEAT, replace(RULE, max_replicas=most), replicas=4).served for most in (3, 1))
    assert toy.history() == fixed.history()
    assert toy.scheduled <= fixed.scheduled + 4


def test_it_ends_with_the_last_request_although_replicas_are_starting() -> None:
    toy = scaled(step_load(10), ONE_SEAT, replace(RULE, startup_s=1.0), replicas=4)
    assert toy.moves.changes[-1][:2] == (1, 3)
    assert max(toy.served.times("finished").values()) < 0.1


arrangements = given(
    seed=st.integers(0, 1_000_000),
    policy=st.sampled_from([ChunkedPrefill, Priority, VLLMv0]),
    router=st.sampled_from(ROUTERS),
    startup=st.sampled_from([0.0, 0.7, 5.0]),
    most=st.integers(1, 4),
)


def random_case(
    seed: int, policy: type[Scheduler], router: type[Router], startup: float, most: int, level: str
) -> Toy:
    rng = random.Random(seed)
    requests, caps = workload(rng), limits(rng)
    interval_s = rng.choice([1e-5, 1e-4, 1e-3])
    rule = ScalingRule(
        rng.randint(1, most),
        most,
        rng.choice([0.5, 2.0]),
        rng.choice([0.0, 3 * interval_s]),
        startup * interval_s,
        interval_s,
        rng.choice([0.0, 1.0, 4.0]),
    )
    return scaled(requests, caps, rule, replicas=4, router=router, policy=policy, level=level)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@arrangements
def test_a_jump_is_bit_identical_to_its_steps_and_nothing_is_lost(
    seed: int, policy: type[Scheduler], router: type[Router], startup: float, most: int
) -> None:
    jump, steps = (random_case(seed, policy, router, startup, most, level) for level in ("medium", "stepping"))
    assert jump.served.history() == steps.served.history()
    assert jump.moves.changes == steps.moves.changes
    ends = Counter(request for event, request, _ in jump.served.events if event in ("finished", "rejected"))
    assert ends == dict.fromkeys(range(len(jump.requests)), 1)
    assert all(kv.free_blocks == kv.num_blocks for kv in jump.served.kvs)
    assert all(1 <= active <= paid <= most for active, paid, _ in jump.moves.changes)


@pytest.mark.parametrize("router", ROUTERS)
@pytest.mark.parametrize("seed", range(3))
def test_as_many_at_least_as_at_most_is_no_scaling(router: type[Router], seed: int) -> None:
    rng = random.Random(seed)
    requests, caps = workload(rng), limits(rng)
    fixed = scaled(requests, caps, replace(RULE, min_replicas=3), replicas=3, router=router).served
    plain = serve(requests, caps, router=router, replicas=3)
    assert fixed.history() == plain.history()
    assert fixed.scheduled == plain.scheduled
