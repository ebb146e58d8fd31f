"""Clients that give up: runs equal single steps, levels agree, and all that a request held is given back."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frameworks.central_queue import CentralQueue
from frameworks.chunked_prefill import ChunkedPrefill
from frameworks.kv_aware import KVAware
from frameworks.least_kv import LeastKV
from frameworks.priority import Priority
from frameworks.round_robin import RoundRobin
from frameworks.shedding import Shedding
from frameworks.slo_class import SLOClass
from frameworks.static_batching import StaticBatching
from simsys.framework import Router, Scheduler
from simsys.model.batch import Batch
from simsys.serving.batch_wait import BatchWait
from simsys.serving.clients import NO_ANSWER, NO_FIRST_TOKEN
from simsys.serving.intake import Intake
from simsys.serving.leaving import HAD_ENOUGH
from simsys.serving.polling import Polling
from simsys.serving.requests import RequestTable
from simsys.serving.scheduled_ahead import ScheduledAhead
from simsys.serving.selection import with_attempts
from tests.helpers.random_serving import POLICIES, ROUTERS, impatient, limits, shared, workload
from tests.helpers.reference_serving import Limits
from tests.helpers.replica_harness import TOKEN_BYTES, disaggregated
from tests.helpers.serving_harness import Served, StepSeconds, serve
from tests.helpers.thorough import cases

ENDS = ("finished", "rejected", "cancelled")
INTAKES: tuple[Callable[[], Intake] | None, ...] = (None, ScheduledAhead, lambda: Polling(3), lambda: BatchWait(4, 20))
AMPLE = Limits(num_blocks=1000)
CASES = {
    "seed": st.integers(0, 1_000_000),
    "policy": st.sampled_from(POLICIES),
    "router": st.sampled_from((*ROUTERS, KVAware, Shedding, SLOClass)),
    "replicas": st.integers(1, 3),
    "prefix_caching": st.booleans(),
    "swap_blocks": st.sampled_from([None, 5, 1000]),
    "intake": st.sampled_from(INTAKES),
}


def served(seed: int, *, prefix_caching: bool = False, **given: Any) -> tuple[RequestTable, Limits, Served]:
    rng = random.Random(seed)
    requests, found = workload(rng), limits(rng)
    if prefix_caching:
        requests = shared(rng, requests)
    requests = impatient(rng, requests)
    return requests, found, serve(requests, found, seed=seed, prefix_caching=prefix_caching, **given)


def check_ends(requests: RequestTable, each: Served) -> None:
    """Every request that is sent ends once."""
    ends = Counter(request for event, request, _ in each.events if event in ENDS)
    assert ends == dict.fromkeys(each.arrived, 1)
    if not requests.attempt and not requests.after:
        assert set(each.arrived) == set(range(len(requests)))


@settings(max_examples=cases(160), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(**CASES)
def test_runs_are_bit_identical_to_single_steps_and_nothing_is_kept(**case: Any) -> None:
    requests, found, runs = served(level="medium", **case)
    _, _, steps = served(level="stepping", **case)
    assert runs.history() == steps.history()
    assert runs.cancelled == steps.cancelled
    assert runs.arrived == steps.arrived
    assert [kv.peak_blocks for kv in runs.kvs] == [kv.peak_blocks for kv in steps.kvs]
    check_ends(requests, runs)
    assert all(kv.free_blocks == found.num_blocks and not kv.held for kv in runs.kvs)
    assert all(space.free_blocks == space.num_blocks for space in runs.spaces)


@settings(max_examples=cases(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 1_000_000),
    policy=st.sampled_from((ChunkedPrefill, Priority, StaticBatching)),
    router=st.sampled_from(ROUTERS),
    decode_router=st.sampled_from((CentralQueue, LeastKV)),
    slow=st.sampled_from([1.0, 30.0, 1000.0]),
)
def test_disaggregated_runs_are_single_steps_too(
    seed: int, policy: type[Scheduler], router: type[Router], decode_router: type[Router], slow: float
) -> None:
    rng = random.Random(seed)
    requests, found = impatient(rng, workload(rng)), limits(rng)
    more: dict[str, Any] = {"policy": policy, "router": router, "decode_router": decode_router}
    more |= {"prefill": 2, "decode": 2, "token_bytes": slow * TOKEN_BYTES}
    runs, steps = (disaggregated(requests, found, level=level, **more) for level in ("medium", "stepping"))
    assert runs.served.history() == steps.served.history()
    assert runs.served.cancelled == steps.served.cancelled
    check_ends(requests, runs.served)
    assert all(kv.free_blocks == found.num_blocks and not kv.held for kv in runs.served.kvs)


@pytest.mark.parametrize("router", ROUTERS)
def test_the_levels_give_the_same_times(router: type[Router]) -> None:
    for seed in range(1, 7):  # in case 0, two replicas that step alike make two clients give up at one moment
        (_, _, high), (_, _, medium) = (
            served(seed, level=level, router=router, replicas=2) for level in ("high", "medium")
        )
        expected = {(event, request): time_s for event, request, time_s in medium.events}
        assert {(event, request): time_s for event, request, time_s in high.events} == pytest.approx(
            expected, rel=1e-9
        )


def test_the_random_cases_cover_what_can_happen() -> None:
    wanted = {"waiting", "running", "with tokens", NO_ANSWER, NO_FIRST_TOKEN, HAD_ENOUGH, "again", "finished"}
    seen: set[str] = set()
    for seed in range(60):
        requests, _, each = served(seed)
        seen |= {event for event, _, _ in each.events}
        for cancelled in each.cancelled.values():
            seen |= {cancelled.reason, "waiting" if cancelled.waiting else "running"}
            seen |= {"with tokens" for _ in range(min(1, cancelled.output_tokens))}
        seen |= {"again" for request in each.arrived if requests.attempt and requests.attempt[request]}
    assert seen >= wanted


def test_a_running_request_leaves_with_the_token_of_the_step_under_way() -> None:
    """All steps of the two sequences last as long as the model says; the client gives up within the fifth one."""
    seconds = StepSeconds()
    ends_s = [seconds(Batch(16, 2, attention_pairs=72.0))]
    for step in range(40):
        ends_s.append(ends_s[-1] + seconds(Batch(2, 2, decode_context_tokens=2 * (9 + step), decode_sequences=2)))
    within_s = 0.5 * (ends_s[4] + ends_s[5])
    requests = RequestTable([0.0, 0.0], [8, 8], [40, 40], cancel_s=[within_s, inf])
    each = serve(requests, AMPLE)
    cancelled = each.cancelled[0]
    assert cancelled.time_s == pytest.approx(ends_s[5], rel=1e-9)
    assert (cancelled.prompt_tokens, cancelled.output_tokens, cancelled.reason) == (8, 6, HAD_ENOUGH)
    assert not cancelled.waiting
    alone_s = each.times("finished")[1]
    assert ends_s[5] < alone_s < ends_s[39], "the other one has the GPU for itself"


def test_a_waiting_request_leaves_at_once_and_lets_the_next_one_in() -> None:
    """Ten blocks: the second prompt needs all of them; when its client gives up, the third one has."""
    requests = RequestTable([0.0, 1e-6, 2e-6], [4, 40, 4], [8, 1, 1], cancel_s=[inf, 2e-5, inf])
    found = Limits(num_blocks=10, reserves_prompts=True)
    each = serve(requests, found)
    assert each.cancelled[1].time_s == pytest.approx(1e-6 + 2e-5, rel=1e-12)
    assert each.cancelled[1].wasted_tokens == 0
    assert each.cancelled[1].waiting
    admitted_s = each.times("admitted")[2]
    steps_s = [ended_s for _, _, ended_s in each.passes if ended_s >= each.cancelled[1].time_s]
    assert admitted_s == min(steps_s), "at the end of the step under way"
    assert admitted_s < each.times("finished")[0]


def test_a_request_that_the_engine_holds_back_is_one_that_waits() -> None:
    """It comes within a step while the next one is scheduled, so the engine would look at it later."""
    requests = RequestTable([0.0, 1e-6], [8, 8], [40, 1], cancel_s=[inf, 1e-6])
    each = serve(requests, AMPLE, intake=ScheduledAhead)
    assert each.cancelled[1].time_s == pytest.approx(2e-6, rel=1e-12)
    assert each.cancelled[1].waiting
    assert each.cancelled[1].wasted_tokens == 0


def test_a_time_out_for_the_first_token_is_over_with_it() -> None:
    lone = serve(RequestTable([0.0], [8], [30]), AMPLE)
    first_s, last_s = lone.times("first token")[0], lone.times("finished")[0]
    for timeout_s, ends in ((0.9 * first_s, "cancelled"), (1.1 * first_s, "finished")):
        each = serve(RequestTable([0.0], [8], [30], ttft_timeout_s=timeout_s), AMPLE)
        assert each.times(ends), timeout_s
    each = serve(RequestTable([0.0], [8], [30], timeout_s=0.9 * last_s), AMPLE)
    assert each.cancelled[0].reason == NO_ANSWER
    assert serve(RequestTable([0.0], [8], [30], timeout_s=last_s), AMPLE).times("finished")[0] == last_s


def test_a_client_with_enough_tokens_ends_a_request_as_if_it_were_shorter() -> None:
    long = RequestTable([0.0, 0.0], [8, 8], [40, 40], cancel_tokens=[7, 0])
    each, short = serve(long, AMPLE), serve(RequestTable([0.0, 0.0], [8, 8], [7, 40]), AMPLE)
    assert each.cancelled[0].output_tokens == 7
    assert each.cancelled[0].time_s == short.times("finished")[0]
    assert each.times("finished")[1] == short.times("finished")[1]


def test_retries_come_after_their_backoff_until_one_is_answered() -> None:
    """One seat: the second client gets no first token until the first request has ended, at its third attempt."""
    busy_s = serve(RequestTable([0.0], [8], [60]), AMPLE).times("finished")[0]
    wait_s, timeout_s = 0.1 * busy_s, 0.4 * busy_s
    requests = RequestTable([0.0, 0.0], [8, 8], [60, 1], ttft_timeout_s=timeout_s)
    requests = with_attempts(requests, 3, [wait_s, 2 * wait_s, 4 * wait_s] * 2)
    each = serve(requests, replace(AMPLE, max_num_seqs=1))
    assert each.arrived[5] == pytest.approx(timeout_s + wait_s)
    assert each.arrived[6] == pytest.approx(2 * timeout_s + 3 * wait_s)
    assert 7 not in each.arrived
    assert sorted(each.times("finished")) == [0, 6]
    assert sorted(each.cancelled) == [4, 5]


def test_a_conversation_ends_where_an_answer_is_missing() -> None:
    requests = RequestTable([0.0] * 3, [8] * 3, [30] * 3, after=[-1, 0, 1], session=[0] * 3, turn=[0, 1, 2])
    each = serve(replace(requests, cancel_tokens=[0, 5, 0]), AMPLE)
    assert sorted(each.arrived) == [0, 1]
    assert (sorted(each.times("finished")), sorted(each.cancelled)) == ([0], [1])


def test_a_closed_loop_sends_its_next_request_when_a_client_gives_up() -> None:
    requests = RequestTable([0.0] * 3, [8] * 3, [30] * 3, concurrency=1, cancel_tokens=[5, 0, 5])
    each = serve(requests, AMPLE, router=RoundRobin)
    assert each.arrived[1] == each.cancelled[0].time_s
    assert sorted(each.arrived) == [0, 1, 2]
