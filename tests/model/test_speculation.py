"""Expected tokens of speculative decoding, and the passes that it takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.model.batch import Batch
from simsys.model.model_db import load_model
from simsys.model.speculation import Speculation, own_layers
from simsys.rng import stream


@given(st.integers(1, 16), st.floats(0.0, 0.99))
def test_expected_tokens_are_those_of_leviathan_et_al(drafted: int, rate: float) -> None:
    expected = (1 - rate ** (drafted + 1)) / (1 - rate)
    assert Speculation(drafted, rate).tokens_per_step == pytest.approx(expected)


def test_the_expectation_is_what_drawing_yields() -> None:
    drafted, rate, draws = 4, 0.7, 200_000
    accepted = stream(0, "draft").random((draws, drafted)) < rate
    tokens = 1 + accepted.cumprod(axis=1).sum(axis=1)
    assert tokens.mean() == pytest.approx(Speculation(drafted, rate).tokens_per_step, rel=5e-3)


@pytest.mark.parametrize(("drafted", "rate"), [(4, 0.7), (1, 0.5), (3, 0.0), (3, 1.0), (0, 0.0), (64, 0.99)])
def test_draws_have_the_expected_mean_and_depend_on_the_seed(drafted: int, rate: float) -> None:
    speculation = Speculation(drafted, rate)
    draws = speculation.draws(7).ring
    assert sum(draws) / len(draws) == pytest.approx(speculation.tokens_per_step, rel=1e-3)
    assert {min(draws), max(draws)} <= set(range(1, drafted + 2))
    assert draws == speculation.draws(7).ring
    assert (draws == speculation.draws(8).ring) == (rate in (0.0, 1.0))


@pytest.mark.parametrize(("rate", "expected"), [(0.0, 1.0), (1.0, 5.0)])
def test_none_or_all_are_accepted(rate: float, expected: float) -> None:
    assert Speculation(4, rate).tokens_per_step == expected


def test_without_a_draft_a_step_is_that_of_plain_decoding() -> None:
    assert Speculation().tokens_per_step == 1.0
    assert Speculation().verification(3, 100) == Batch(3, 3, decode_context_tokens=103, decode_sequences=3)


def test_verification_counts_the_pairs_of_every_query_and_reads_each_cache_once() -> None:
    """Two sequences with 10 and 20 cached tokens and drafts of 3: queries see 11 to 14 and 21 to 24 tokens."""
    batch = Speculation(3, 0.5).verification(2, 30)
    assert (batch.tokens, batch.logits, batch.decode_sequences) == (8, 8, 2)
    assert batch.decode_context_tokens == 14 + 24
    assert batch.decode_context_tokens + batch.verified_pairs == sum(range(11, 15)) + sum(range(21, 25))


def test_each_drafted_token_is_a_pass_of_one_token_per_sequence() -> None:
    speculation = Speculation(3, 0.5)
    passes = speculation.drafts(speculation.verification(2, 30))
    assert [one.tokens for one in passes] == [2, 2, 2]
    assert [one.decode_context_tokens for one in passes] == [32, 34, 36]
    assert not any(one.verified_pairs for one in passes)


def test_prompts_go_through_the_draft_model_too() -> None:
    speculation = Speculation(2, 0.5)
    prompt = Batch(tokens=50, logits=1, attention_pairs=1275, prompt_context_tokens=7)
    assert speculation.drafts(prompt) == [prompt._replace(logits=0)]
    first, second = speculation.drafts(speculation.verification(4, 100) + prompt)
    assert (first.tokens, second.tokens) == (54, 4)
    assert (first.attention_pairs, first.prompt_context_tokens) == (1275, 7)
    assert (second.attention_pairs, second.prompt_context_tokens) == (0, 0)


def test_a_model_drafts_with_one_more_layer_of_its_own_and_its_head() -> None:
    model = load_model("DeepSeek-V3")
    drafts = own_layers(model, 1)
    assert [block.name for block in drafts.blocks] == ["moe_layer", "head"]
    assert drafts.parameters == pytest.approx(model.blocks[-2].parameters + model.blocks[-1].parameters)
    assert drafts.kv_elements_per_token * model.num_layers == pytest.approx(model.kv_elements_per_token)
    assert len(own_layers(model, 3).blocks) == 4
