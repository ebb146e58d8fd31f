"""Measured passes in place of kernel costs: exact at the measurements, and between them as stated."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.costs.measured_passes import Curve, MeasuredPass, MeasuredPassCost, MeasuredPasses
from simsys.model.batch import Batch, attention_pairs
from simsys.model.work import Precision
from simsys.parallel.passes import ForwardPass
from simsys.platform.device_spec import DeviceSpec
from tests.helpers.toys import TOY


def decode_s(sequences: float, context: float) -> float:
    return 0.01 + 1e-5 * sequences + 1e-8 * context


def prompt_s(tokens: float, pairs: float) -> float:
    return 0.012 + 2e-5 * tokens + 1e-10 * pairs


def prompt(sequences: int, tokens: int, context: int) -> MeasuredPass:
    pairs = sequences * attention_pairs(tokens / sequences, context=context / sequences)
    return MeasuredPass(sequences, tokens, context, prompt_s(tokens, pairs))


DECODING = [MeasuredPass(n, n, n * c, decode_s(n, n * c)) for n in (1, 8, 64) for c in (128, 1024, 8192)]
PROMPTS = [prompt(1, tokens, context) for tokens in (16, 512, 2048) for context in (0, 2048, 16384)]
PASSES = MeasuredPasses(DECODING + PROMPTS)


def cost(spec: DeviceSpec = TOY) -> MeasuredPassCost:
    return MeasuredPassCost(PASSES, ForwardPass("model", ()), spec, Precision())


@given(st.integers(1, 64), st.integers(0, 10_000))
def test_steps_of_decoding_between_the_measurements(sequences: int, context: int) -> None:
    batch = Batch(sequences, sequences, decode_context_tokens=sequences * context, decode_sequences=sequences)
    seconds, exchange_s = cost().seconds(batch)
    assert exchange_s == 0.0
    assert seconds == pytest.approx(decode_s(sequences, sequences * context))
    assert cost().times(batch, Batch(decode_context_tokens=sequences), 0.0).duration(0) == pytest.approx(seconds)


@given(st.integers(16, 2048), st.integers(0, 20_000))
def test_prompts_between_the_measurements(tokens: int, context: int) -> None:
    pairs = attention_pairs(tokens, context=context)
    seconds, _ = cost().seconds(Batch(tokens, 1, pairs, context))
    assert seconds == pytest.approx(prompt_s(tokens, pairs))


def test_decoding_beside_prompts_adds_the_time_of_its_context() -> None:
    batch = Batch(512, 9, attention_pairs(504), 0, 8 * 4096, 8)
    assert cost().seconds(batch)[0] == pytest.approx(prompt_s(512, attention_pairs(504)) + 1e-8 * 8 * 4096)
    ((repeat, (segment,)),) = cost().by_segment(batch)
    assert (repeat, segment.compute_s) == (1, cost().seconds(batch)[0])


def test_a_slower_device_takes_longer_in_proportion() -> None:
    batch = Batch(8, 8, decode_context_tokens=8192, decode_sequences=8)
    slower = replace(TOY, speed=0.5)
    assert cost(slower).seconds(batch)[0] == pytest.approx(2.0 * cost().seconds(batch)[0])


def test_a_curve_bends_where_the_measurements_do_and_runs_of_steps_follow_it() -> None:
    bent = [MeasuredPass(n, n, n * c, max(0.01, 1e-5 * c)) for n in (1, 2) for c in (0, 1000, 4000)]
    passes = MeasuredPasses([*bent, *PROMPTS])
    found = MeasuredPassCost(passes, ForwardPass("model", ()), TOY, Precision())
    batch, more = Batch(2, 2, decode_context_tokens=1996, decode_sequences=2), Batch(decode_context_tokens=2)
    times = found.times(batch, more, 0.0)
    each = [found.seconds(batch.grown(step, more))[0] for step in range(6)]
    assert [times.duration(step) for step in range(6)] == pytest.approx(each)
    assert each == pytest.approx([0.01, 0.01, 0.01, 0.01001, 0.01002, 0.01003])


def test_noise_never_makes_a_curve_fall() -> None:
    curve = Curve.below([(0.0, 1.2), (1.0, 1.0), (2.0, 1.1), (4.0, 2.0)])
    assert curve.first == (1.0, 0.0)
    assert curve.bends == ((1.0, pytest.approx(0.1)), (2.0, pytest.approx(0.35)))


def test_equal_passes_count_with_their_median() -> None:
    again = [MeasuredPass(8, 8, 8 * 128, seconds) for seconds in (1.0, decode_s(8, 8 * 128))]
    found = MeasuredPasses([*DECODING, *PROMPTS, *again])
    assert len(found.rows) == len(DECODING) + len(PROMPTS)
    assert next(row.seconds for row in found.rows if row[:3] == (8, 8, 8 * 128)) == median(
        [1.0, *[decode_s(8, 8 * 128)] * 2]
    )


def test_errors_of_passes_left_out() -> None:
    assert max(PASSES.errors()) < 1e-9
    wrong = [MeasuredPass(8, 8, 8 * 1024, 2.0 * decode_s(8, 8 * 1024))]
    worse = MeasuredPasses([row for row in DECODING if row[:3] != wrong[0][:3]] + wrong + PROMPTS).errors()
    assert max(worse) == pytest.approx(0.5, rel=0.01)
    assert MeasuredPasses([*DECODING[:2], *PROMPTS[:2]]).errors() == []


def test_a_table_needs_both_kinds_and_two_contexts_of_each() -> None:
    with pytest.raises(ValueError, match="no passes of prompts"):
        MeasuredPasses(DECODING)
    with pytest.raises(ValueError, match="no passes of decoding"):
        MeasuredPasses(PROMPTS)
    with pytest.raises(ValueError, match=r"decoding .* with 64 new tokens at one context only"):
        MeasuredPasses([*DECODING[:-2], *PROMPTS])
