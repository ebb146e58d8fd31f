"""The work of prompt chunks, and what is booked when they are done."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from frameworks.llm_prefill import LLMPrefill
from simsys.framework import Chunk
from simsys.serving.requests import RequestTable
from simsys.serving.sequences import Sequences


def prefill(prompts: list[int]) -> LLMPrefill:
    return LLMPrefill(Sequences(RequestTable([0.0] * len(prompts), prompts, [4] * len(prompts))))


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 60), st.integers(0, 60)), min_size=1, max_size=8))
def test_work_is_the_sum_over_query_tokens_one_by_one(pieces: list[tuple[int, int, int]]) -> None:
    phase = prefill([cached + chunk + rest for cached, chunk, rest in pieces])
    for request, (cached, _, _) in enumerate(pieces):
        phase.sequences.computed_tokens[request] = cached
    batch = phase.work([Chunk(request, chunk) for request, (_, chunk, _) in enumerate(pieces)])
    assert batch.tokens == sum(chunk for _, chunk, _ in pieces)
    assert batch.logits == sum(rest == 0 for _, _, rest in pieces)
    assert batch.attention_pairs == sum(cached + n + 1 for cached, chunk, _ in pieces for n in range(chunk))
    assert batch.prompt_context_tokens == sum(cached for cached, _, _ in pieces)
    assert batch.decode_sequences == batch.decode_context_tokens == 0


@given(prompt=st.integers(1, 100), chunk=st.integers(1, 100))
def test_chunks_add_up_to_the_whole_prompt(prompt: int, chunk: int) -> None:
    whole, phase = prefill([prompt]).work([Chunk(0, prompt)]), prefill([prompt])
    tokens = pairs = logits = 0.0
    complete: list[int] = []
    while not complete:
        piece = [Chunk(0, min(chunk, phase.sequences.remaining_prompt(0)))]
        batch = phase.work(piece)
        tokens, pairs, logits = tokens + batch.tokens, pairs + batch.attention_pairs, logits + batch.logits
        complete = phase.finish(piece)
    assert (tokens, pairs, logits) == (whole.tokens, whole.attention_pairs, 1)
    assert complete == [0]
    assert phase.sequences.computed_tokens.tolist() == [prompt]
    assert phase.sequences.generated_tokens == [1]


def test_only_complete_prompts_get_a_token() -> None:
    phase = prefill([10, 6])
    assert phase.finish([Chunk(0, 9), Chunk(1, 6)]) == [1]
    assert phase.sequences.generated_tokens == [0, 1]
    assert phase.sequences.computed_tokens.tolist() == [9, 6]


def test_after_a_preemption_prompt_and_output_are_computed_again_for_the_next_token() -> None:
    phase = prefill([10])
    phase.sequences.generated_tokens[0] = 3
    assert phase.finish([Chunk(0, 10)]) == []
    assert phase.finish([Chunk(0, 3)]) == [0]
    assert phase.sequences.generated_tokens == [4]


def test_no_chunks_are_no_work() -> None:
    phase = prefill([1])
    assert phase.work([]).tokens == 0
    assert phase.finish([]) == []
