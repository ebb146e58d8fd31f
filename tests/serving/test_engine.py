"""The engine: long runs of steps are, to the last bit, what single steps are; and what both must keep to."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from frameworks.central_queue import CentralQueue
from frameworks.chunked_prefill import ChunkedPrefill
from frameworks.prefill_first import PrefillFirst
from frameworks.prefix_affinity import PrefixAffinity
from frameworks.priority import Priority
from frameworks.random import Random
from frameworks.shortest_job_first import ShortestJobFirst
from frameworks.speculative_decode import SpeculativeDecode
from simsys.framework import Engine, Router, Scheduler
from simsys.model.speculation import Speculation
from simsys.ops import Operation
from simsys.probes import Probe
from simsys.serving.batch_wait import BatchWait
from simsys.serving.intake import Intake
from simsys.serving.polling import Polling
from simsys.serving.requests import RequestTable
from simsys.serving.scheduled_ahead import ScheduledAhead
from tests.helpers.random_serving import POLICIES, ROUTERS, limits, shared, workload
from tests.helpers.reference_serving import Limits
from tests.helpers.serving_harness import HOST, SLOW_HOST, Served, serve
from tests.helpers.thorough import cases
from tests.helpers.weighted_fair_queueing import WeightedFairQueueing


class Curious(Router):
    """A router of a user's own, which asks for all that an engine answers."""

    def route(self, request: int) -> Engine:
        def known(engine: Engine) -> tuple[int, ...]:
            return -engine.free_blocks(), -engine.cached_tokens(request), engine.outstanding

        return min(self.replicas, key=known)


class Drafting(SpeculativeDecode):
    """Accepts three of five drafts."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given, speculation=Speculation(draft_tokens=2, acceptance_rate=0.6))


INTAKES: tuple[Callable[[], Intake] | None, ...] = (None, ScheduledAhead, lambda: Polling(3), lambda: BatchWait(4, 20))


class Runs(Probe):
    """Keeps what observers hear of runs of steps, by engine."""

    def __init__(self) -> None:
        self.by_rank: dict[int, list[float]] = {}

    def steps(self, rank: int, runs: Sequence[float]) -> None:
        self.by_rank.setdefault(rank, []).extend(runs)


class Passes(Probe):
    """Hears of every single pass."""

    def operation(self, op: Operation, started_s: float, ended_s: float) -> None:
        pass


@dataclass(frozen=True)
class Case:
    """Requests and engines by chance."""

    seed: int
    policy: type[Scheduler]
    router: type[Router]
    replicas: int
    prefix_caching: bool
    swap_blocks: int | None
    intake: Callable[[], Intake] | None
    drafts: bool

    def serve(self, **given: Any) -> Served:
        rng = random.Random(self.seed)
        requests, found = workload(rng), limits(rng)
        if self.prefix_caching:
            requests = shared(rng, requests)
        slow = self.seed % 2 == 1
        given = {"overlapped": slow, "host": SLOW_HOST if slow else HOST, **given}
        if self.drafts:
            given["decode"] = Drafting
        return serve(
            requests,
            found,
            policy=self.policy,
            router=self.router,
            replicas=self.replicas,
            seed=self.seed,
            prefix_caching=self.prefix_caching,
            swap_blocks=self.swap_blocks,
            intake=self.intake,
            **given,
        )


CASES = st.builds(
    Case,
    seed=st.integers(0, 1_000_000),
    policy=st.sampled_from(POLICIES),
    router=st.sampled_from((*ROUTERS, PrefixAffinity, Curious)),
    replicas=st.integers(1, 4),
    prefix_caching=st.booleans(),
    swap_blocks=st.sampled_from([None, None, 0, 5, 1000]),
    intake=st.sampled_from(INTAKES),
    drafts=st.sampled_from([False, False, False, True]),
)


def known(served: Served) -> tuple[Any, ...]:
    """All that does not depend on how long runs are."""
    caches = [(kv.peak_blocks, kv.free_blocks, kv.taken_blocks) for kv in served.kvs]
    copies = sorted((start_s, end_s, op.rank, op.name, op.nbytes) for op, start_s, end_s in served.copies)
    return served.history(), served.arrived, served.reasons, sorted(served.lookups), copies, caches


def runs_equal_steps(case: Case) -> None:
    """Serve in runs as long as possible, and step by step."""
    runs, steps = (case.serve(level=level) for level in ("medium", "stepping"))
    assert known(runs) == known(steps)
    assert sorted(runs.steps_told()) == [pytest.approx(step, rel=1e-9) for step in sorted(steps.steps_told())]
    assert set(steps.runs) <= {1}
    assert runs.scheduled <= steps.scheduled + len(runs.arrived) + len(runs.copies)
    assert runs.busy_s == pytest.approx(steps.busy_s, rel=1e-9)


EVICTED = Case(675165, ChunkedPrefill, Random, 1, True, None, None, False)
"""A waiting request loses some of its cached prefix in the middle of a run, and fits afterwards."""
COPYING = Case(541468, PrefillFirst, CentralQueue, 1, False, 5, None, False)
"""A request arrives while caches are copied to the host, and ends the run that follows."""
FORESEEN = Case(156807, ShortestJobFirst, PrefixAffinity, 2, True, None, None, False)
"""A router asks for cached tokens that the steps of a run under way have taken."""

DRAFTED = Case(827, ChunkedPrefill, CentralQueue, 1, False, None, None, True)
"""A sequence needs more blocks for its first step with drafts than that step can have tokens."""

COPIED = Case(33797, Priority, CentralQueue, 3, False, 1000, lambda: BatchWait(4, 20), False)
"""A replica whose caches are copied can take the next request of a central queue after the run that follows only."""
CROWDED_OUT = Case(999_999, Priority, CentralQueue, 1, False, None, lambda: Polling(3), True)
"""Decoding takes the memory that a more important request waits for."""
UNLUCKY = Case(940583, ChunkedPrefill, Curious, 3, True, None, None, True)
"""A sequence that is preempted has had more drafts accepted than the mean, and needs more blocks than are free."""

GIVEN_BACK = Case(487884, WeightedFairQueueing, PrefixAffinity, 3, True, 5, lambda: BatchWait(4, 20), True)
"""A block that was taken in a run for a draft, and evicted a cached one, is given back at the end of the run."""


@settings(max_examples=cases(240), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CASES)
@example(
    Case(999_999, Priority, CentralQueue, 1, False, None, lambda: Polling(3), True)
)  # memory ran out for who waits
@example(EVICTED)
@example(COPYING)
@example(FORESEEN)
@example(DRAFTED)
@example(UNLUCKY)
@example(COPIED)
@example(GIVEN_BACK)
def test_runs_are_bit_identical_to_single_steps(case: Case) -> None:
    runs_equal_steps(case)


@pytest.mark.slow
@settings(max_examples=6000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CASES)
def test_runs_are_bit_identical_to_single_steps_however_rare_the_case(case: Case) -> None:
    runs_equal_steps(case)


def test_replicas_in_lockstep_hear_of_what_follows_after_all_steps_of_a_moment() -> None:
    """Steps of both end at equal floats; what follows from an end at one of them arrives at the other then."""
    outputs = [3, 30, 30, 3, 7, 3, 30, 3, 5, 30, 3, 5]
    requests = RequestTable([0.0] * 12, [8] * 12, outputs, concurrency=4)
    runs, steps = (
        serve(requests, Limits(num_blocks=1000), replicas=2, level=level) for level in ("medium", "stepping")
    )
    assert known(runs) == known(steps)
    ends_s = [{ended_s for op, _, ended_s in runs.passes if op.rank == rank} for rank in range(2)]
    assert any(time_s in ends_s[0] & ends_s[1] for time_s in runs.arrived.values() if time_s)


@settings(max_examples=cases(120), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CASES, st.lists(st.floats(1e-6, 1e-3), min_size=1, max_size=3, unique=True), st.sampled_from([1e-5, 1e-6]))
def test_who_watches_interrupts_or_acts_beside_it_changes_nothing(
    case: Case, pauses_s: list[float], ticks_s: float
) -> None:
    def heard(*probes: Probe, **given: Any) -> tuple[Any, ...]:
        runs = Runs()
        served = case.serve(details=False, probes=(runs, *probes), **given)
        return served.events, served.arrived, served.reasons, served.lookups, served.busy_s, runs.by_rank

    alone = heard()
    assert heard(Passes()) == alone
    assert heard(pauses_s=sorted(pauses_s)) == alone
    assert heard(ticks_s=ticks_s) == alone


def both(
    seed: int, policy: type[Scheduler], router: type[Router], replicas: int
) -> tuple[RequestTable, Served, Served]:
    rng = random.Random(seed)
    requests, settings = workload(rng), limits(rng)
    overlapped = seed % 2 == 1
    runs, steps = (
        serve(
            requests,
            settings,
            policy=policy,
            router=router,
            replicas=replicas,
            seed=seed,
            level=level,
            host=SLOW_HOST if overlapped else HOST,
            overlapped=overlapped,
        )
        for level in ("medium", "stepping")
    )
    return requests, runs, steps


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
        requests, settings, overlapped = workload(rng), limits(rng), seed % 2 == 1
        host = SLOW_HOST if overlapped else HOST
        high, medium = (
            serve(
                requests,
                settings,
                policy=policy,
                router=router,
                replicas=2,
                level=level,
                host=host,
                overlapped=overlapped,
            )
            for level in ("high", "medium")
        )
        expected = {(event, request): time_s for event, request, time_s in medium.events}
        assert {(event, request): time_s for event, request, time_s in high.events} == pytest.approx(
            expected, rel=1e-9
        )


def test_the_random_cases_cover_what_can_happen() -> None:
    wanted = {"admitted", "first token", "finished", "preempted", "rejected", "run", "run over chunks"}
    seen: set[str] = set()
    for seed in range(150):
        if seen >= wanted:
            return
        rng = random.Random(seed)
        requests, settings = workload(rng), limits(rng)
        served = serve(requests, settings)
        seen |= {event for event, _, _ in served.events}
        chunks = [set(step.chunks) for step in served.steps]
        seen |= {"run" for count in served.runs if count > 1}
        seen |= {"run over chunks" for before, after in pairwise(chunks) if before and before == after}
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


@pytest.mark.parametrize("replicas", [1, 4])
def test_neither_requests_nor_steps_are_events(replicas: int) -> None:
    requests = RequestTable([1e-4 * place for place in range(200)], [8] * 200, [30] * 200)
    served = serve(requests, Limits(num_blocks=1000), replicas=replicas, details=False)
    assert len(served.times("finished")) == 200
    assert served.scheduled < 10


@pytest.mark.parametrize("threshold", [0, 3])
def test_prompts_of_many_steps_are_processed_in_runs(threshold: int) -> None:
    requests = RequestTable([1e-4 * place for place in range(50)], [300] * 50, [5] * 50)
    runs = Runs()
    settings = Limits(num_blocks=5000, long_prefill_token_threshold=threshold)
    served = serve(requests, settings, details=False, probes=(runs,))
    assert served.scheduled < 10
    (each,) = runs.by_rank.values()
    assert any(count > 1 and prompts for count, prompts in zip(each[1::6], each[3::6], strict=True))


@pytest.mark.parametrize("replicas", [1, 4])
def test_hooks_are_called_in_order_of_time(replicas: int) -> None:
    rng = random.Random(1)
    served = serve(workload(rng), limits(rng), replicas=replicas, details=False)
    times_s = [time_s for *_, time_s in served.events]
    assert times_s == sorted(times_s)
