"""Durations of passes: caches that change no value, and sums that do not depend on how a pass is cut."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.collectives import CollectiveKind
from simsys.costs.pass_cost import PassCost
from simsys.model.batch import Batch
from simsys.model.transformer import build_transformer, gpt_architecture
from simsys.model.work import Precision, forward_work
from simsys.parallel.passes import forward_pass
from simsys.parallel.replica import with_length_skew
from simsys.platform.device_spec import EfficiencyCurve, work_seconds
from tests.helpers.toys import TOY

GPT = build_transformer(gpt_architecture("toy", num_layers=4, hidden_size=256, num_attention_heads=8, vocab_size=1024))
CURVE = EfficiencyCurve((1.0, 64.0, 4096.0), (0.1, 0.5, 0.8), (0.6, 0.7, 0.8))
REAL = replace(
    TOY,
    curves={kind: {"default": CURVE} for kind in TOY.curves},
    floor_s={"decode_attention": {"default": 5e-6}, "memory": {"default": 1e-6}},
)
PER_LAYER_S = 3e-5

few = st.sampled_from([0.0, 1.0, 7.0, 640.0])  # few values, so that caches are hit
many = st.sampled_from([1.0, 1e4, 3e7])
none = st.just(0.0)
some = few.filter(bool)
prompts = st.builds(Batch, some, few, many, many, none, none, none, none, none, st.just(False))
decodes = st.builds(Batch, some, few, none, none, many, some, none, none, st.just(0.0) | many, st.just(False))
batches = st.one_of(prompts, decodes, st.builds(Batch.__add__, prompts, decodes), st.just(Batch()))
degrees = st.sampled_from([1, 2, 8])


def per_byte(kind: CollectiveKind, nbytes: float) -> float:
    """A made-up price of collectives that tells their kinds apart."""
    return nbytes * (2e-9 if kind is CollectiveKind.ALL_REDUCE else 1e-9)


def pass_cost(tensor: int) -> PassCost:
    return PassCost(forward_pass(GPT, tensor), REAL, Precision(), PER_LAYER_S, per_byte)


@given(batches, degrees)
def test_a_pass_costs_the_sum_of_its_segments(batch: Batch, tensor: int) -> None:
    compute_s = exchange_s = 0.0
    for repeat, segments in pass_cost(tensor).by_segment(batch):
        for segment in segments:
            compute_s += repeat * segment.compute_s
            exchange_s += repeat * (per_byte(segment.kind, segment.nbytes) if segment.kind is not None else 0.0)
    assert pass_cost(tensor).seconds(batch) == pytest.approx((compute_s, exchange_s))
    assert (exchange_s > 0.0) == (tensor > 1 and (batch.tokens > 0 or batch.logits > 0))


@given(batches, degrees)
def test_a_pass_costs_what_its_kernels_take_one_by_one(batch: Batch, tensor: int) -> None:
    plan = forward_pass(GPT, tensor)
    expected_s = sum(
        stretch.repeat
        * work_seconds(REAL, forward_work(segment.operators, batch, Precision(), layers=segment.layers), PER_LAYER_S)
        for stretch in plan.stretches
        for segment in stretch.segments
    )
    compute_s, _ = pass_cost(tensor).seconds(batch)
    assert compute_s == pytest.approx(expected_s, rel=1e-12)


@given(st.lists(batches, min_size=2, max_size=8), degrees)
def test_what_was_asked_before_changes_no_answer(batches: list[Batch], tensor: int) -> None:
    used = pass_cost(tensor)
    for batch in batches * 2:
        assert used.seconds(batch) == pass_cost(tensor).seconds(batch)


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("tokens", Batch(tokens=512.0)),
        ("logits", Batch(tokens=512.0, logits=512.0)),
        ("attention_pairs", Batch(tokens=512.0, attention_pairs=1e8)),
        ("prompt_context_tokens", Batch(tokens=512.0, attention_pairs=1e4, prompt_context_tokens=1e7)),
        ("decode_context_tokens", Batch(tokens=512.0, decode_context_tokens=1e7, decode_sequences=512.0)),
    ],
)
def test_no_cached_part_takes_one_batch_for_another(name: str, base: Batch) -> None:
    cost = pass_cost(2)
    more = base._replace(**{name: 3 * getattr(base, name)})
    seconds, more_seconds = (sum(cost.seconds(batch)) for batch in (base, more))
    assert seconds < more_seconds


def test_a_pass_names_its_segments_and_their_exchanges() -> None:
    stretches = pass_cost(2).by_segment(Batch(tokens=10.0, logits=2.0))
    assert [repeat for repeat, _ in stretches] == [1, 4, 1]
    segments = list(itertools.chain.from_iterable(segments for _, segments in stretches))
    assert [segment.name for segment in segments] == ["embedding", "layer", "layer", "head"]
    reduced = (CollectiveKind.ALL_REDUCE, 10 * 256 * 2.0)
    gathered = (CollectiveKind.ALL_GATHER, 2 * 1024 * 2.0)
    assert [(segment.kind, segment.nbytes) for segment in segments] == [reduced, reduced, reduced, gathered]


@given(some, st.floats(1.0, 3.0), st.booleans())
def test_a_decode_step_grows_evenly_with_the_cached_tokens(sequences: float, skew: float, drafted: bool) -> None:
    """So that runs of such steps can be summed up in closed form."""
    cost = PassCost(with_length_skew(forward_pass(GPT), skew), REAL, Precision(), PER_LAYER_S, per_byte)

    def seconds(cached: float) -> float:
        pairs = 2 * cached if drafted else 0.0
        batch = Batch(sequences, sequences, 0.0, 0.0, cached, sequences, verified_pairs=pairs)
        return cost.seconds(batch)[0]

    times = [seconds(cached) for cached in (1e6, 2e6, 3e6)]
    assert times[2] - times[1] == pytest.approx(times[1] - times[0], rel=1e-9)
