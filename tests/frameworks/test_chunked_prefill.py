"""The shipped scheduler makes the same decisions as a naive engine written from vLLM's documentation."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from frameworks.chunked_prefill import ChunkedPrefill
from simsys.config.validation import validate
from simsys.errors import ConfigError
from simsys.serving.requests import RequestTable
from tests.helpers.each_case import each_case
from tests.helpers.reference_serving import Limits, ReferenceEngine
from tests.helpers.serving_harness import HOST, SLOW_HOST, StepSeconds, serve

CASES = 150


def workload(rng: random.Random) -> RequestTable:
    """Up to 40 requests, some at the same time, in light and in heavy traffic."""
    count = rng.randint(1, 40)
    gap_s = rng.choice([1e-6, 1e-5, 1e-4])
    longest = rng.choice([1, 4, 24])
    return RequestTable(
        sorted(rng.choice([0.0, rng.random() * count * gap_s]) for _ in range(count)),
        [rng.randint(1, rng.choice([2, 40])) for _ in range(count)],
        [rng.randint(1, longest) for _ in range(count)],
    )


def limits(rng: random.Random) -> Limits:
    """Small caches and batches, so that blocks, sequences and tokens all run out."""
    block_size, seqs = rng.choice([1, 2, 4, 16]), rng.randint(1, 12)
    return Limits(
        num_blocks=rng.randint(1, max(2, 120 // block_size)),
        block_size=block_size,
        max_num_seqs=seqs,
        max_num_batched_tokens=seqs + rng.choice([0, 1, 7, 30]),
        long_prefill_token_threshold=rng.choice([0, 0, 1, 3, 8]),
        max_context_tokens=rng.choice([0, 50]),
        reserves_prompts=seqs % 2 == 0,
    )


@each_case("seed", range(CASES))
def test_decisions_and_times_are_those_of_the_naive_engine(seed: int) -> None:
    rng = random.Random(seed)
    requests, settings = workload(rng), limits(rng)
    overlapped = seed % 2 == 1
    host = SLOW_HOST if overlapped else HOST
    reference = ReferenceEngine(requests, settings, StepSeconds(host, overlapped=overlapped))
    reference.run()
    expected = {(event, request): time_s for event, request, time_s in reference.events}
    for level in ("medium", "stepping"):
        served = serve(requests, settings, level=level, host=host, overlapped=overlapped)
        assert [(step.chunks, step.batch) for step in served.steps] == [
            (step.chunks, step.batch) for step in reference.steps
        ]
        assert [step.started_s for step in served.steps] == pytest.approx([s.started_s for s in reference.steps])
        assert {(event, request): time_s for event, request, time_s in served.events} == pytest.approx(
            expected, rel=1e-12
        )
        assert sorted(each[:2] for each in served.events) == sorted(each[:2] for each in reference.events)


def test_the_random_cases_cover_preemption_rejection_and_chunks() -> None:
    seen: set[str] = set()
    for seed in range(CASES):
        rng = random.Random(seed)
        requests, settings = workload(rng), limits(rng)
        reference = ReferenceEngine(requests, settings, StepSeconds())
        reference.run()
        seen |= {event for event, _, _ in reference.events}
        seen |= {
            "chunk" for step in reference.steps for n, tokens in step.chunks if tokens < requests.prompt_tokens[n]
        }
    assert seen == {"admitted", "first token", "finished", "preempted", "rejected", "chunk"}


def test_a_prompt_that_does_not_fit_whole_waits_if_prompts_are_reserved() -> None:
    """Three prompts of which two fit: cut into chunks, all begin, and preempt each other."""
    requests = RequestTable([0.0] * 3, [40] * 3, [12] * 3)
    settings = Limits(num_blocks=28, block_size=4, max_num_batched_tokens=16)
    greedy, whole = (serve(requests, replace(settings, reserves_prompts=each)) for each in (False, True))
    assert greedy.times("preempted")
    assert not whole.times("preempted")
    assert max(whole.running) == 2
    assert max(whole.times("finished").values()) < max(greedy.times("finished").values())


def chunks_of(limits: Limits, prompts: list[int]) -> list[list[tuple[int, int]]]:
    requests = RequestTable([0.0] * len(prompts), prompts, [2] * len(prompts))
    return [step.chunks for step in serve(requests, limits).steps if step.chunks]


def test_what_the_budget_leaves_is_given_to_prompts_in_order_of_arrival() -> None:
    # 10 tokens; then 1 decodes and 9 are left, which the second and third prompt share
    chunks = chunks_of(Limits(100, max_num_batched_tokens=10), [8, 9, 5])
    assert chunks == [[(0, 8), (1, 2)], [(1, 7), (2, 2)], [(2, 3)]]


def test_a_threshold_lets_later_prompts_pass_a_long_one() -> None:
    chunks = chunks_of(Limits(100, max_num_batched_tokens=12, long_prefill_token_threshold=4), [12, 3])
    assert chunks == [[(0, 4), (1, 3)], [(0, 4)], [(0, 4)]]


def test_no_more_sequences_than_allowed_run() -> None:
    served = serve(RequestTable([0.0] * 9, [3] * 9, [5] * 9), Limits(100, max_num_seqs=4))
    assert max(served.running) == 4
    assert len(served.times("finished")) == 9


@pytest.mark.parametrize(
    "option",
    [{"max_num_seqs": 0}, {"max_num_batched_tokens": -1}, {"long_prefill_token_threshold": -1}, {"max_seqs": 4}],
)
def test_bad_options_are_refused(option: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(iter(option))):
        validate(option, ChunkedPrefill.Options)
