"""The serving loop: queueing theory, conservation laws, preemption, and policies other than the shipped one."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frameworks.chunked_prefill import ChunkedPrefill
from simsys.errors import UsageError
from simsys.framework import Chunk, Scheduler
from simsys.serving.host_costs import HostCosts
from simsys.serving.requests import RequestTable
from simsys.testing import toy_requests
from tests.helpers.reference_serving import Limits
from tests.helpers.serving_harness import serve

ONE_AT_A_TIME = Limits(num_blocks=16, max_num_seqs=1)


class LongestFirst(ChunkedPrefill):
    """Serves the waiting request with the longest prompt, and running prompts in reverse order."""

    def schedule(self) -> list[Chunk]:
        budget = self.options.max_num_batched_tokens - self.decode.size
        chunks = []
        for request in reversed(list(self.prefilling)):
            tokens = self.chunk_tokens(request, budget) if request in self.prefilling else 0
            if tokens and (chunk := self.extend(request, tokens)):
                chunks.append(chunk)
                budget -= tokens
        while self.waiting and len(self.running) < self.options.max_num_seqs:
            request = max(self.waiting, key=self.sequences.remaining_prompt)
            tokens = self.chunk_tokens(request, budget)
            if not tokens or not (chunk := self.admit(request, tokens)):
                break
            chunks.append(chunk)
            budget -= tokens
        return [chunk for chunk in chunks if chunk.request in self.prefilling]


class NeverAdmits(Scheduler):
    def schedule(self) -> list[Chunk]:
        return []


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    count=st.integers(1, 30),
    blocks=st.integers(1, 40),
    seqs=st.integers(1, 8),
    spare=st.integers(0, 20),
    threshold=st.integers(0, 4),
    policy=st.sampled_from([ChunkedPrefill, LongestFirst]),
)
def test_conservation(
    seed: int, count: int, blocks: int, seqs: int, spare: int, threshold: int, policy: type[ChunkedPrefill]
) -> None:
    requests = toy_requests(count, seed=seed)
    served = serve(requests, Limits(blocks, 4, seqs, seqs + spare, threshold, 60), policy=policy)
    finished, rejected = served.times("finished"), served.times("rejected")
    ends = Counter(request for event, request, _ in served.events if event in ("finished", "rejected"))
    assert ends == dict.fromkeys(range(count), 1), "every request ends exactly once"
    assert all(reason.startswith("longer than") for reason in served.reasons.values())
    assert served.reasons.keys() == rejected.keys()
    assert sum(step.batch.logits for step in served.steps) == sum(requests.output_tokens[r] for r in finished)
    assert served.kv.free_blocks == blocks
    assert not served.kv.held
    first = served.times("first token")
    assert all(requests.arrival_s[r] < first[r] <= finished[r] for r in finished)
    assert all(step.batch.tokens <= seqs + spare for step in served.steps)
    assert max(served.running, default=0) <= seqs
    ends_s = [(step.started_s, step.ended_s) for step in served.steps]
    assert all(start < end for start, end in ends_s)
    assert all(end <= start for (_, end), (start, _) in pairwise(ends_s)), "steps do not overlap"


@pytest.mark.parametrize("policy", [ChunkedPrefill, LongestFirst])
@pytest.mark.parametrize("blocks", [24, 1000])
def test_the_levels_give_the_same_times(policy: type[Scheduler], blocks: int) -> None:
    requests = toy_requests(60, seed=1)
    runs = [serve(requests, Limits(blocks), policy=policy, level=level) for level in ("high", "medium")]
    high, medium = ({(event, r): time_s for event, r, time_s in run.events} for run in runs)
    assert high == pytest.approx(medium, rel=1e-9)
    assert bool(runs[0].times("preempted")) == (blocks == 24)


def test_the_request_admitted_last_is_preempted_and_keeps_its_tokens() -> None:
    # Two requests that end with 4 blocks each; of 7, the second has to give way.
    served = serve(RequestTable([0.0, 0.0], [8, 8], [8, 8]), Limits(num_blocks=7, block_size=4))
    names = [(event, request) for event, request, _ in served.events]
    assert names == [
        ("admitted", 0),
        ("admitted", 1),
        ("first token", 0),
        ("first token", 1),
        ("preempted", 1),
        ("finished", 0),
        ("admitted", 1),
        ("finished", 1),
    ]
    # 5 tokens of it were there already (one of the prompt's pass, four decoded): 8 + 5 are computed again.
    assert served.steps[-3].chunks == [(1, 13)]


def test_nothing_is_admitted_in_a_step_that_preempts() -> None:
    requests = RequestTable([0.0, 0.0, 1e-9], [8, 8, 1], [8, 8, 1])
    served = serve(requests, Limits(num_blocks=7, block_size=4, max_num_seqs=2))
    (preempted_s,) = (time_s for event, _, time_s in served.events if event == "preempted")
    assert not [event for event in served.events if event[0] == "admitted" and event[2] == preempted_s]


def test_host_costs_are_added_to_every_step() -> None:
    requests = RequestTable([0.0, 0.0], [4, 4], [3, 3])
    free = serve(requests, Limits(100), host=HostCosts())
    costly = serve(requests, Limits(100), host=HostCosts(per_step_s=1e-3, per_sequence_s=1e-4))
    assert len(free.steps) == len(costly.steps) == 3
    for without, with_costs in zip(free.steps, costly.steps, strict=True):
        added_s = (with_costs.ended_s - with_costs.started_s) - (without.ended_s - without.started_s)
        assert added_s == pytest.approx(1e-3 + 2 * 1e-4)


def test_a_policy_that_never_admits_is_an_error() -> None:
    with pytest.raises(UsageError, match="NeverAdmits leaves 1 requests waiting"):
        serve(RequestTable([0.0], [4], [4]), Limits(100), policy=NeverAdmits)
