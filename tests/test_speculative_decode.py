"""Speculative decoding as a phase: tokens as expected, blocks as needed, and the same as plain decoding without it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frameworks.llm_decode import LLMDecode
from frameworks.speculative_decode import SpeculativeDecode
from simsys.model.batch import Batch
from simsys.model.speculation import Speculation
from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.requests import RequestTable
from simsys.serving.sequences import Sequences

BLOCK = 4


def phase(requests: list[tuple[int, int]], speculation: Speculation | None) -> SpeculativeDecode:
    """Requests (prompt and output tokens) whose prompts are done and have yielded a token."""
    table = RequestTable([0.0] * len(requests), *(list(column) for column in zip(*requests, strict=True)))
    sequences, kv = Sequences(table), PagedKVCache(100_000, BLOCK)
    decode = SpeculativeDecode(sequences, kv, speculation)
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
    alone, among, other = (phase([(10, 200)] * count, Speculation(3, 0.6)) for count in (1, 5, 5))
    other.draws = Speculation(3, 0.6).draws(seed=1)
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
    decode = phase(requests, None)
    plain = LLMDecode(phase(requests, None).sequences, PagedKVCache(100_000, BLOCK))
    for request, (prompt, output) in enumerate(requests):
        assert plain.kv.grow(request, prompt)
        if output > 1:
            plain.add(request)
    while plain.size:
        assert decode.beside(Batch()) == plain.beside(Batch())
        assert decode.missing_blocks() == plain.missing_blocks()
        assert sorted(decode.finish()) == sorted(plain.finish())
        assert decode.kv.free_blocks == plain.kv.free_blocks
    assert not decode.size


@given(lengths, st.integers(1, 6), st.floats(0, 1), st.integers(0, 20))
def test_all_tokens_are_made_and_all_blocks_come_back(
    requests: list[tuple[int, int]], drafted: int, rate: float, preempt_at: int
) -> None:
    decode = phase(requests, Speculation(drafted, rate))
    kv, step = decode.kv, 0
    while decode.size:
        batch = decode.beside(Batch())
        assert batch.tokens == decode.size * (drafted + 1)
        before, missing = kv.free_blocks, decode.missing_blocks()
        held = {
            request: decode.sequences.computed_tokens[request] + decode.decoded[request] for request in decode.decoded
        }
        assert batch.decode_context_tokens == sum(held.values()) + batch.tokens
        if step == preempt_at:
            victim = next(iter(decode.decoded))
            decode.remove(victim)
            assert kv.free_blocks > before
            assert decode.sequences.generated_tokens[victim] < requests[victim][1]
        else:
            ended = decode.finish()
            given_back = sum(kv.blocks_for(sum(requests[request]) - 1) for request in ended)
            assert kv.free_blocks == before - missing + given_back
            for request in ended:
                assert decode.sequences.generated_tokens[request] == requests[request][1]
        step += 1
    only_prompts = sum(kv.blocks_for(prompt) for prompt, output in requests if output == 1)
    assert kv.free_blocks == kv.num_blocks - only_prompts
