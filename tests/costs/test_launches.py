"""Launching kernels: hidden behind long ones, binding behind short ones, absent in a replayed graph."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from simsys.collectives.choose import cheapest
from simsys.costs.launches import Launches
from simsys.costs.pass_cost import PassCost
from simsys.executors import LEVELS
from simsys.executors.execution_model import ExecutionModel
from simsys.model.batch import Batch
from simsys.model.work import Precision
from simsys.parallel.layout import Layout
from simsys.parallel.passes import forward_pass
from simsys.teams import Team
from simsys.testing.toys import toy_model, toy_platform
from tests.helpers.toys import TOY

PLAN = forward_pass(toy_model(num_layers=3))
LAYERS = 3 + 2
LAUNCHED = 3 + 3 / 8
"""Of the eight kernels of a layer, embedding, last norm and head have one each."""
DECODE = Batch(tokens=4, logits=4, decode_context_tokens=400, decode_sequences=4)
PROMPT = Batch(tokens=64, logits=1, attention_pairs=64 * 65 / 2)


def seconds(batch: Batch, launches: Launches) -> float:
    compute_s, _ = PassCost(PLAN, TOY, Precision(), 1e-6, lambda kind, nbytes: 0.0, launches).seconds(batch)
    return compute_s


def head_and_context_s(batch: Batch) -> float:
    """What launches do not run beside: the head, and attention over what is cached."""
    tokens_alone = batch._replace(logits=0, decode_context_tokens=0, prompt_context_tokens=0, attention_pairs=0)
    return seconds(batch, Launches()) - seconds(tokens_alone, Launches())


def test_launches_that_are_longer_than_all_kernels_bind() -> None:
    expected = LAYERS * 1e-6 + LAUNCHED * 1.0 + head_and_context_s(DECODE)
    assert seconds(DECODE, Launches(per_layer_s=1.0)) == pytest.approx(expected)


def test_what_layers_lose_between_kernels_is_that_of_the_gpu() -> None:
    def step_s(gap: float) -> float:
        cost = PassCost(PLAN, replace(TOY, kernel_gap=gap), Precision(), 1e-6, lambda kind, nbytes: 0.0)
        return cost.seconds(DECODE)[0]

    assert step_s(3.0) - step_s(1.0) == pytest.approx(2.0 * LAYERS * 1e-6)


def test_launches_that_are_shorter_than_the_kernels_are_hidden() -> None:
    tiny_s = 1e-12
    expected = seconds(PROMPT, Launches()) + tiny_s  # of the head, whose kernels work on logits
    assert seconds(PROMPT, Launches(tiny_s)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("batch", "tokens", "prompts", "launched"),
    [
        (DECODE, 4, 0, False),
        (DECODE, 3, 64, True),
        (DECODE, inf, 0, False),
        (DECODE, 0, inf, True),
        (PROMPT, inf, 0, True),
        (PROMPT, 0, 64, False),
        (PROMPT, 64, 63, True),
    ],
)
def test_a_graph_replaces_launches_up_to_its_size(batch: Batch, tokens: float, prompts: float, launched: bool) -> None:
    took_s = seconds(batch, Launches(1.0, tokens, prompts))
    assert (took_s > 1.0) == launched
    assert launched or took_s == seconds(batch, Launches())


def test_the_time_of_tokens_and_that_of_logits_add_up() -> None:
    """So that runs of steps can be summed up from both."""
    for launches in (Launches(), Launches(1e-5), Launches(1.0), Launches(1.0, 64.0)):
        base = Batch(tokens=32)
        both, tokens, logits, nothing = (
            seconds(base._replace(tokens=t, logits=n), launches) for t, n in ((32, 8), (32, 0), (0, 8), (0, 0))
        )
        assert both - tokens == pytest.approx(logits - nothing)


def test_passes_with_prompts_take_more_of_the_host_however_long_their_kernels_are() -> None:
    for launches in (Launches(), Launches(1.0), Launches(1.0, 64.0, 64.0)):
        slower = replace(launches, prompt_layer_s=0.25)
        assert seconds(PROMPT, slower) - seconds(PROMPT, launches) == pytest.approx(LAUNCHED * 0.25)
        assert seconds(DECODE, slower) == seconds(DECODE, launches)


def test_handing_prompts_over_takes_of_each_token_of_long_passes() -> None:
    for above, tokens in ((PROMPT.tokens - 1, PROMPT.tokens), (PROMPT.tokens, 0.0)):
        slower = Launches(token_layer_s=1e-3, above_tokens=above)
        assert seconds(PROMPT, slower) - seconds(PROMPT, Launches()) == pytest.approx(LAUNCHED * 1e-3 * tokens)
        assert seconds(DECODE, slower) == seconds(DECODE, Launches())


def test_the_host_needs_time_for_each_cached_token_of_sequences_that_decode() -> None:
    slower = Launches(cached_token_s=1e-3)
    assert seconds(DECODE, slower) - seconds(DECODE, Launches()) == pytest.approx(1e-3 * DECODE.decode_context_tokens)
    assert seconds(PROMPT, slower) == seconds(PROMPT, Launches())
    cost = PassCost(PLAN, TOY, Precision(), 1e-6, lambda kind, nbytes: 0.0, slower)
    for batch in (DECODE, PROMPT, DECODE._replace(verified_pairs=40.0)):
        by_segment = sum(repeat * sum(each.compute_s for each in times) for repeat, times in cost.by_segment(batch))
        assert cost.seconds(batch)[0] == pytest.approx(by_segment, rel=1e-12)
    grown = Batch(decode_context_tokens=4.0)
    first_s, second_s = (cost.seconds(DECODE._replace(decode_context_tokens=c))[0] for c in (400, 404))
    times = cost.times(DECODE, grown, 0.0)
    assert times.elapsed(1) == pytest.approx(first_s)
    assert times.elapsed(2) == pytest.approx(first_s + second_s)


@pytest.mark.parametrize("batch", [DECODE, PROMPT], ids=["decode", "prompt"])
def test_both_levels_launch_alike(batch: Batch) -> None:
    ends = []
    for level in ("high", "medium"):
        platform = toy_platform(1)
        model = ExecutionModel(cheapest, Precision(), 1e-6, launches=Launches(3e-6, 16.0, 0.0, 5e-6, 1e-6, 1.0))
        executor = LEVELS[level](platform, model, [(0,)])
        Team(Layout().group(0, "tensor"), PLAN, executor).forward(batch)
        platform.env.run()
        ends.append(platform.devices[0].free_at_s)
    assert ends[0] == pytest.approx(ends[1], rel=1e-12)
