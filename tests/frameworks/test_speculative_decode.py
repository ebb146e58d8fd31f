"""Speculative decoding as a phase: tokens as expected, blocks as needed, and the same as plain decoding without it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frameworks.llm_decode import LLMDecode
from frameworks.speculative_decode import UNIT, SpeculativeDecode
from simsys.model.batch import Batch
from simsys.model.speculation import Draws, Speculation
from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.requests import RequestTable
from simsys.serving.sequences import Sequences

BLOCK = 4


def phase(requests: list[tuple[int, int]], speculation: Speculation | None, seed: int = 0) -> SpeculativeDecode:
    """Requests (prompt and output tokens) whose prompts are done and have yielded a token."""
    table = RequestTable([0.0] * len(requests), *(list(column) for column in zip(*requests, strict=True)))
    sequences, kv = Sequences(table), PagedKVCache(100_000, BLOCK)
    decode = SpeculativeDecode(sequences, kv, speculation, seed)
    for request, (prompt, output) in enumerate(requests):
        assert kv.grow(request, prompt)
        sequences.computed_tokens[request], sequences.generated_tokens[request] = prompt, 1
        if output > 1:
            decode.add(request)
    return decode


def steps_to_end(decode: SpeculativeDecode) -> dict[int, int]:
    """For each request the step at which it ends."""
    ends: dict[int, int] = {}
    step = 0
    while decode.size:
        step += 1
        ends.update(dict.fromkeys(decode.finish(), step))
    return ends


@pytest.mark.parametrize(("drafted", "rate"), [(1, 0.5), (3, 0.5), (4, 0.8), (2, 0.0), (2, 1.0)])
def test_the_tokens_of_a_step_are_drawn_with_the_expected_mean_and_variance(drafted: int, rate: float) -> None:
    """By renewal theory, n tokens take n / m steps on average, which vary by n s^2 / m^3."""
    remaining, requests = 300, 200
    at_least = [rate**accepted for accepted in range(drafted + 1)]
    mean = sum(at_least)
    variance = sum((2 * accepted + 1) * each for accepted, each in enumerate(at_least)) - mean**2
    decode = phase([(10, 1 + remaining)] * requests, Speculation(drafted, rate))
    ends = np.array(list(steps_to_end(decode).values()))
    assert ends.mean() == pytest.approx(remaining / mean, rel=0.01)
    assert ends.var() == pytest.approx(remaining * variance / mean**3, rel=0.3, abs=0.2)


def test_what_is_accepted_depends_on_the_request_and_its_answer_so_far_and_the_seed() -> None:
    alone, among = (phase([(10, 200)] * count, Speculation(3, 0.6)) for count in (1, 5))
    other = phase([(10, 200)] * 5, Speculation(3, 0.6), seed=1)
    for _ in range(3):
        among.finish()
    among.remove(0)  # preempted, and back when its cache is computed again
    sequences = among.sequences
    sequences.computed_tokens[0] = 9 + sequences.generated_tokens[0]
    assert among.kv.grow(0, sequences.computed_tokens[0])
    among.finish()
    among.add(0)
    assert steps_to_end(among)[0] + 3 == steps_to_end(alone)[0]
    assert steps_to_end(other) != steps_to_end(phase([(10, 200)] * 5, Speculation(3, 0.6)))


lengths = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 60)), min_size=1, max_size=8)


@given(lengths)
def test_without_a_draft_it_decodes_as_the_plain_phase(requests: list[tuple[int, int]]) -> None:
    """But for the block of each sequence that drafts may need."""
    decode = phase(requests, None)
    plain = LLMDecode(phase(requests, None).sequences, PagedKVCache(100_000, BLOCK))
    for request, (prompt, output) in enumerate(requests):
        assert plain.kv.grow(request, prompt)
        if output > 1:
            plain.add(request)
    while plain.size:
        assert decode.batch_with(Batch()) == plain.batch_with(Batch())
        assert decode.growth() == plain.growth()
        steps = min(decode.steps_left(), 1 + plain.step % 3)
        assert sorted(decode.finish(steps)) == sorted(plain.finish(steps))
        assert plain.kv.free_blocks - 2 * plain.size <= decode.kv.free_blocks <= plain.kv.free_blocks
    assert not decode.size
    assert decode.kv.free_blocks == plain.kv.free_blocks


@given(lengths, st.integers(1, 6), st.floats(0, 1), st.integers(0, 20), st.integers(1, 4))
def test_all_tokens_are_made_and_all_blocks_come_back(
    requests: list[tuple[int, int]], drafted: int, rate: float, preempt_at: int, longest: int
) -> None:
    decode = phase(requests, Speculation(drafted, rate))
    kv, turn = decode.kv, 0
    while decode.size:
        batch = decode.batch_with(Batch())
        assert batch.tokens == decode.size * (drafted + 1)
        assert batch.decode_context_tokens == pytest.approx(decode.cached_tokens + batch.tokens)
        if turn == preempt_at:
            victim, before = next(iter(decode.joined)), kv.free_blocks
            decode.remove(victim)
            assert kv.free_blocks > before
            assert decode.sequences.generated_tokens[victim] < requests[victim][1]
        else:
            for request in decode.finish(min(longest, decode.steps_left())):
                assert decode.sequences.generated_tokens[request] == requests[request][1]
        needed = sum(kv.blocks_for(requests[request][0] + step(decode, request)) for request in decode.joined)
        prompts = sum(kv.blocks_for(prompt) for prompt, output in requests if output == 1)
        assert needed <= kv.num_blocks - prompts - kv.free_blocks + len(decode.joined)
        turn += 1
    only_prompts = sum(kv.blocks_for(prompt) for prompt, output in requests if output == 1)
    assert kv.free_blocks == kv.num_blocks - only_prompts
    assert decode.cached_tokens == decode.units_per_step == decode.grown_units == decode.taken_blocks == 0


def step(decode: SpeculativeDecode, request: int) -> int:
    """Tokens of a sequence since it joined."""
    _, _, joined, units, _ = decode.joined[request]
    return units * (decode.step - joined) // UNIT


@given(st.lists(st.integers(1, 5), min_size=1, max_size=30), st.integers(0, 60), st.integers(1, 200))
def test_steps_and_tokens_are_those_of_a_walk_along_the_draws(numbers: list[int], place: int, tokens: int) -> None:
    draws, found, steps = Draws(numbers), 0, 0
    while found < tokens:
        assert draws.tokens(place, steps) == found
        found += numbers[(place + found) % len(numbers)]
        steps += 1
    assert draws.steps(place, tokens) == steps


@given(lengths, st.integers(1, 6), st.floats(0, 1), st.data())
def test_it_does_not_matter_where_runs_are_cut(
    requests: list[tuple[int, int]], drafted: int, rate: float, data: st.DataObject
) -> None:
    stepped, run = (phase(requests, Speculation(drafted, rate)) for _ in range(2))
    while run.size:
        steps = data.draw(st.integers(1, run.steps_left()))
        ended = run.finish(steps)
        assert [each for _ in range(steps) for each in stepped.finish()] == ended
        assert stepped.batch_with(Batch()) == run.batch_with(Batch())
        assert stepped.kv.free_blocks == run.kv.free_blocks


def test_the_reserve_of_a_step_suffices_for_blocks_of_a_single_token_and_is_no_larger() -> None:
    """With all drafts accepted, each sequence has the tokens of all queries, and the block that it may need more."""
    table = RequestTable([0.0] * 5, [8] * 5, [31] * 5)
    sequences, kv = Sequences(table), PagedKVCache(1000, 1)
    decode = SpeculativeDecode(sequences, kv, Speculation(2, 1.0))
    for request in range(5):
        assert kv.grow(request, 8)
        sequences.computed_tokens[request], sequences.generated_tokens[request] = 8, 1
        decode.add(request)
    assert decode.missing_blocks() == decode.size * decode.blocks_per_step == 5 * 4


def test_the_tokens_of_a_preempted_sequence_do_not_depend_on_when_it_joined() -> None:
    late, first = (phase([(10, 200)] * 2, Speculation(3, 0.6)) for _ in range(2))
    late.remove(1)
    for _ in range(7):
        late.finish()
    late.kv.grow(1, 10)
    late.add(1)
    for decode in (late, first):
        for _ in range(4):
            decode.finish()
        decode.remove(1)
    assert late.sequences.generated_tokens[1] == first.sequences.generated_tokens[1] > 1 + 4
