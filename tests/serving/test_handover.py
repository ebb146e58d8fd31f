"""Disaggregated serving: nothing is lost on the way, the times are those of theory, and runs equal single steps."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frameworks.central_queue import CentralQueue
from frameworks.chunked_prefill import ChunkedPrefill
from frameworks.least_kv import LeastKV
from frameworks.least_outstanding import LeastOutstanding
from frameworks.orca import Orca
from frameworks.priority import Priority
from frameworks.random import Random
from frameworks.round_robin import RoundRobin
from frameworks.shortest_job_first import ShortestJobFirst
from frameworks.static_batching import StaticBatching
from frameworks.vllm_v0 import VLLMv0
from simsys.framework import Router, Scheduler
from simsys.platform.topology import LinkSpec, Topology, both_ways
from simsys.serving.requests import RequestTable
from simsys.testing.toys import TOY_LINK_BYTES_PER_S, TOY_LINK_LATENCY_S
from tests.helpers.random_serving import limits, workload
from tests.helpers.reference_serving import Limits
from tests.helpers.replica_harness import TOKEN_BYTES, Toy, disaggregated
from tests.helpers.thorough import cases

POLICIES = (ChunkedPrefill, Orca, Priority, ShortestJobFirst, StaticBatching, VLLMv0)
ROUTERS = (CentralQueue, LeastKV, LeastOutstanding, Random, RoundRobin)
AMPLE = Limits(num_blocks=1000, block_size=4)

arrangements = given(
    seed=st.integers(0, 1_000_000),
    policy=st.sampled_from(POLICIES),
    router=st.sampled_from(ROUTERS),
    decode_router=st.sampled_from(ROUTERS),
    prefill=st.integers(1, 2),
    decode=st.integers(1, 3),
    slow=st.sampled_from([1.0, 30.0, 1000.0]),
)


def serve(
    seed: int,
    level: str,
    policy: type[Scheduler] = ChunkedPrefill,
    router: type[Router] = RoundRobin,
    decode_router: type[Router] = LeastKV,
    prefill: int = 1,
    decode: int = 1,
    slow: float = 1.0,
) -> Toy:
    """A random workload in small caches; caches are `slow` times as large to send as those of the toy model."""
    rng = random.Random(seed)
    return disaggregated(
        workload(rng),
        limits(rng),
        prefill=prefill,
        decode=decode,
        policy=policy,
        router=router,
        decode_router=decode_router,
        token_bytes=slow * TOKEN_BYTES,
        level=level,
    )


@settings(max_examples=cases(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@arrangements
def test_runs_are_bit_identical_to_single_steps(
    seed: int,
    policy: type[Scheduler],
    router: type[Router],
    decode_router: type[Router],
    prefill: int,
    decode: int,
    slow: float,
) -> None:
    runs, steps = (
        serve(seed, level, policy, router, decode_router, prefill, decode, slow) for level in ("medium", "stepping")
    )
    assert runs.served.history() == steps.served.history()
    assert runs.moves.transfers == steps.moves.transfers
    assert runs.served.arrived == steps.served.arrived
    assert [kv.peak_blocks for kv in runs.served.kvs] == [kv.peak_blocks for kv in steps.served.kvs]
    told, expected = (sorted(toy.served.steps_told()) for toy in (runs, steps))
    assert told == [pytest.approx(step, rel=1e-9) for step in expected]


@settings(max_examples=cases(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@arrangements
def test_conservation(
    seed: int,
    policy: type[Scheduler],
    router: type[Router],
    decode_router: type[Router],
    prefill: int,
    decode: int,
    slow: float,
) -> None:
    toy = serve(seed, "stepping", policy, router, decode_router, prefill, decode, slow)
    served, requests, transfers, caps = toy.served, toy.requests, toy.moves.transfers, toy.limits
    finished, first = served.times("finished"), served.times("first token")
    ends = Counter(request for event, request, _ in served.events if event in ("finished", "rejected"))
    assert ends == dict.fromkeys(range(len(requests)), 1), "every request ends exactly once"
    assert first.keys() == finished.keys()
    assert sum(step.batch.logits for step in served.steps) == sum(requests.output_tokens[r] for r in finished)
    prompt_tokens = sum(tokens for step in served.steps for _, tokens in step.chunks)
    asked = sum(requests.prompt_tokens[r] for r in finished)
    assert prompt_tokens > asked if served.times("preempted") else prompt_tokens == asked
    assert all(kv.free_blocks == caps.num_blocks and not kv.held for kv in served.kvs)
    assert transfers.keys() == {request for request in finished if requests.output_tokens[request] > 1}
    for request, (started_s, ended_s, _) in transfers.items():
        assert first[request] <= started_s < ended_s < finished[request]
    for request, end_s in finished.items():
        assert served.arrived[request] <= first[request] <= end_s
    assert all(step.batch.tokens <= caps.max_num_batched_tokens for step in served.steps)
    assert max(served.running, default=0) <= caps.max_num_seqs
    for op, _, _ in served.passes:
        assert not op.batch.decode_sequences or op.rank >= prefill
    for rank in range(prefill + decode):
        spans = [(started_s, ended_s) for op, started_s, ended_s in served.passes if op.rank == rank]
        assert all(end <= start for (_, end), (start, _) in pairwise(spans)), "steps do not overlap"


def test_the_random_cases_cover_what_can_happen() -> None:
    wanted = {"admitted", "rejected", "preempted", "run", "waited for room", "computed again"}
    seen: set[str] = set()
    for seed in range(150):
        if seen >= wanted:
            return
        toy = serve(seed, "medium", slow=30.0)
        preempted, transfers = toy.served.times("preempted"), toy.moves.transfers
        seen |= {event for event, _, _ in toy.served.events}
        seen |= {"run" for count in toy.served.runs if count > 1}
        for request, (started_s, ended_s, _) in transfers.items():
            seen |= {"waited for room"} if started_s > toy.served.times("first token")[request] else set()
            seen |= {"computed again"} if preempted.get(request, 0.0) > ended_s else set()
    assert seen >= wanted


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("decode_router", [CentralQueue, LeastKV, LeastOutstanding, RoundRobin])
def test_the_levels_give_the_same_times_where_transfers_do_not_meet(
    policy: type[Scheduler], decode_router: type[Router]
) -> None:
    """Each pair of GPUs has a link of its own, and requests come one after another on each."""
    rng = random.Random(7)
    count = 12
    arrival_s = [2e-4 * place + 1e-5 * rng.random() for place in range(count)]
    lengths = [[rng.randint(2, 30) for _ in range(count)] for _ in range(2)]
    requests = RequestTable(arrival_s, *lengths, priority=[rng.randint(0, 2) for _ in range(count)])
    high, medium, occupied = (
        disaggregated(requests, AMPLE, prefill=2, decode=2, policy=policy, decode_router=decode_router, level=level)
        for level in ("high", "medium", "occupied")
    )
    spans = sorted(medium.moves.transfers.values())
    assert all(ended <= started for (_, ended, _), (started, _, _) in pairwise(spans))
    for other in (high, occupied):
        expected = {(event, request): time_s for event, request, time_s in medium.served.events}
        found = {(event, request): time_s for event, request, time_s in other.served.events}
        assert found == pytest.approx(expected, rel=1e-9)
        for request, span in medium.moves.transfers.items():
            assert other.moves.transfers[request] == pytest.approx(span, rel=1e-9)


@pytest.mark.parametrize("level", ["high", "medium", "stepping", "occupied"])
@pytest.mark.parametrize("tensor", [1, 2])
def test_a_transfer_takes_what_the_links_say_and_the_first_token_does_not_wait_for_it(level: str, tensor: int) -> None:
    token_bytes = TOKEN_BYTES / tensor
    toy = disaggregated(RequestTable([0.0], [40], [3]), AMPLE, level=level, tensor=tensor, token_bytes=token_bytes)
    started_s, ended_s, nbytes = toy.moves.transfers[0]
    first, finished = toy.served.times("first token")[0], toy.served.times("finished")[0]
    assert started_s == pytest.approx(first, rel=1e-12)
    assert nbytes == 40 * TOKEN_BYTES
    assert TOKEN_BYTES == 2 * 2 * 64 * 2  # keys and values, layers, hidden size, bf16
    each_s = TOY_LINK_LATENCY_S + nbytes / tensor / TOY_LINK_BYTES_PER_S
    assert ended_s - started_s == pytest.approx(each_s, rel=1e-9)
    decoding = [(begun, ended) for op, begun, ended in toy.served.passes if op.batch.decode_sequences]
    assert decoding[0][0] == pytest.approx(ended_s, rel=1e-9)
    assert decoding[-1][1] == pytest.approx(finished, rel=1e-9)
    sent = toy.platform.network.traffic.columns()
    between = {(src, dst): size for src, dst, size in zip(sent["src"], sent["dst"], sent["nbytes"], strict=True)}
    for rank in range(tensor):
        assert between[rank, tensor + rank] == nbytes / tensor


def test_a_request_of_one_token_stays_where_it_is() -> None:
    toy = disaggregated(RequestTable([0.0, 0.0], [8, 8], [1, 2]), AMPLE)
    assert toy.moves.transfers.keys() == {1}
    assert toy.served.times("finished")[0] == toy.served.times("first token")[0]


def test_a_cache_waits_for_room_and_holds_its_blocks_meanwhile() -> None:
    """5 blocks of 4 tokens on each side: while one request of 16 + 4 tokens decodes, no other fits beside it."""
    toy = disaggregated(RequestTable([0.0, 0.0], [16, 16], [5, 5]), Limits(num_blocks=5, block_size=4))
    first, finished, admitted = (toy.served.times(event) for event in ("first token", "finished", "admitted"))
    started_s = {request: span[0] for request, span in toy.moves.transfers.items()}
    assert started_s[0] == first[0]
    assert admitted[1] >= toy.moves.transfers[0][1], "its prompt waits until the cache of the other is gone"
    assert started_s[1] == finished[0] > first[1]


def one_uplink() -> Topology:
    """Two GPUs behind a switch, two behind another, and one cable between the switches."""
    pairs = [(0, 4), (1, 4), (2, 5), (3, 5), (4, 5)]
    ways = [way for pair in pairs for way in both_ways(*pair)]
    links = tuple(LinkSpec(*way, TOY_LINK_BYTES_PER_S, TOY_LINK_LATENCY_S, "cable") for way in ways)
    return Topology(4, 6, links, "one uplink")


@pytest.mark.parametrize("contention", ["fifo", "fair"])
def test_two_transfers_at_once_share_the_link_that_both_need(contention: str) -> None:
    """Alone, each takes t; together 2 t. Links that serve in turn let one of them through first."""
    requests = RequestTable([0.0, 1e-9], [40, 40], [2, 2])
    alone_s = 3 * TOY_LINK_LATENCY_S + 40 * 10 * TOKEN_BYTES / TOY_LINK_BYTES_PER_S
    spans = {
        level: disaggregated(
            requests,
            AMPLE,
            prefill=2,
            decode=2,
            decode_router=RoundRobin,
            token_bytes=10 * TOKEN_BYTES,
            level=level,
            topology=one_uplink(),
            contention=contention,
        ).moves.transfers
        for level in ("high", "occupied", "medium")
    }
    seconds = {level: sorted(end - start for start, end, _ in each.values()) for level, each in spans.items()}
    assert seconds["medium"] == [pytest.approx(alone_s)] * 2
    assert seconds["high"][1] == pytest.approx(2 * alone_s, rel=0.05)
    assert seconds["occupied"][1] == pytest.approx(seconds["high"][1], rel=0.05)
    if contention == "fair":
        assert seconds["occupied"][0] == pytest.approx(seconds["high"][0], rel=0.05)
    else:
        assert seconds["high"][0] == pytest.approx(alone_s)
