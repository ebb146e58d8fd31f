"""The decode phase in O(1) a step against one that looks at every sequence in every step."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frameworks.llm_decode import LLMDecode
from simsys.model.batch import Batch
from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.requests import RequestTable
from simsys.serving.sequences import Sequences

BLOCKS = 10_000


@dataclass
class Sequence:
    """A decoding sequence of the naive version."""

    cached: int
    remaining: int


def decode(prompts: list[int], outputs: list[int], block_size: int = 4) -> LLMDecode:
    """The phase, with every prompt complete and its first token there."""
    sequences = Sequences(RequestTable([0.0] * len(prompts), prompts, outputs))
    kv = PagedKVCache(BLOCKS, block_size)
    for request, prompt in enumerate(prompts):
        sequences.computed_tokens[request] = prompt
        sequences.generated_tokens[request] = 1
        kv.grow(request, prompt)
    return LLMDecode(sequences, kv)


@given(
    lengths=st.lists(st.tuples(st.integers(1, 30), st.integers(2, 20)), min_size=1, max_size=10),
    block_size=st.sampled_from([1, 2, 4, 16]),
    data=st.data(),
)
def test_every_step_is_that_of_the_naive_version(
    lengths: list[tuple[int, int]], block_size: int, data: st.DataObject
) -> None:
    phase = decode([prompt for prompt, _ in lengths], [output for _, output in lengths], block_size)
    naive: dict[int, Sequence] = {}
    to_come = list(range(len(lengths)))
    for _ in range(60):
        if to_come and data.draw(st.booleans()):
            request = to_come.pop()
            phase.add(request)
            naive[request] = Sequence(lengths[request][0], lengths[request][1] - 1)
        if naive and data.draw(st.integers(0, 9)) == 0:
            request = data.draw(st.sampled_from(sorted(naive)))
            phase.remove(request)
            gone = naive.pop(request)
            assert phase.sequences.generated_tokens[request] == lengths[request][1] - gone.remaining
        batch = phase.batch_with(Batch(0, 0, 0, 0))
        assert phase.size == batch.tokens == batch.logits == batch.decode_sequences == len(naive)
        assert batch.decode_context_tokens == sum(sequence.cached + 1 for sequence in naive.values())
        assert phase.missing_blocks() == sum(sequence.cached % block_size == 0 for sequence in naive.values())
        for sequence in naive.values():
            sequence.cached += 1
            sequence.remaining -= 1
        ended = sorted(request for request, sequence in naive.items() if not sequence.remaining)
        assert sorted(phase.finish()) == ended
        for request in ended:
            assert phase.sequences.generated_tokens[request] == lengths[request][1]
            del naive[request]
        waiting = sum(-(-lengths[request][0] // block_size) for request in to_come)
        decoding = sum(-(-sequence.cached // block_size) for sequence in naive.values())
        assert BLOCKS - phase.kv.free_blocks == waiting + decoding


def test_an_empty_phase_has_no_work_and_ends_nothing() -> None:
    phase = decode([4], [2])
    assert phase.size == 0
    assert phase.finish() == []


@pytest.mark.parametrize("output", [2, 3, 7])
def test_a_sequence_ends_after_its_output_less_the_first_token(output: int) -> None:
    phase = decode([5], [output])
    phase.add(0)
    steps = [phase.finish() for _ in range(output - 1)]
    assert steps == [[]] * (output - 2) + [[0]]
    assert phase.kv.free_blocks == BLOCKS


def test_a_sequence_that_was_preempted_does_not_end_at_its_old_step() -> None:
    phase = decode([4, 4], [10, 30])
    phase.add(0)
    phase.add(1)
    assert phase.finish() == []
    phase.remove(0)  # would have ended with step 9
    assert phase.sequences.generated_tokens[0] == 2
    assert phase.finish() == phase.finish() == []
    phase.sequences.computed_tokens[0], phase.sequences.generated_tokens[0] = 6, 3  # computed again, with a token more
    phase.kv.grow(0, 6)
    phase.add(0)  # 7 tokens to go after step 3
    assert [phase.finish() for _ in range(7)] == [[]] * 6 + [[0]]
