"""Engine profiles: what releases do on which platforms."""

from __future__ import annotations

import pytest

from simsys.config.hardware import load_engine, load_gpu


@pytest.mark.parametrize(
    ("release", "early"),
    [("0.4", True), ("0.6.1", True), ("0.6.2", False), ("0.6", False), ("0.7.3", False), ("1", False)],
)
def test_kernels_of_paged_attention_end_with_a_release_on_rocm(release: str, early: bool) -> None:
    engine = load_engine("vllm-v0")
    assert engine.decodes_by(release, load_gpu("MI300X"), 8) == ("paged_attention" if early else "")
    assert not engine.decodes_by(release, load_gpu("H100-SXM"), 8)


@pytest.mark.parametrize(
    ("release", "group", "masked"),
    [("0.11.0", 1, True), ("0.11", 4, True), ("0.9", 7, True), ("0.11.0", 8, False), ("0.12", 4, False)],
)
def test_masked_attention_has_no_grouped_kernels_but_for_eight_query_heads(
    release: str, group: int, masked: bool
) -> None:
    engine = load_engine("tensorrt-llm-cpp")
    assert engine.decodes_by(release, load_gpu("A100"), group) == ("masked_attention" if masked else "")


def test_other_engines_have_none() -> None:
    assert not load_engine("vllm").decodes_by("0.6.1", load_gpu("MI300X"), 8)


def test_only_several_ranks_are_handed_the_inputs_of_steps() -> None:
    engine = load_engine("vllm-v0")
    assert engine.step_hand_over
    assert engine.of_a_step(1) == engine.per_step
    assert engine.of_a_step(4) == engine.of_a_step(2) == engine.per_step + engine.step_hand_over
    assert load_engine("vllm").of_a_step(8) == load_engine("vllm").per_step


def test_a_sequence_costs_less_where_its_tokens_are_sent_together() -> None:
    engine = load_engine("tensorrt-llm")
    assert engine.per_output
    assert engine.of_a_sequence(1) == pytest.approx(engine.per_sequence + engine.per_output)
    assert engine.of_a_sequence(20) == pytest.approx(engine.per_sequence + engine.per_output / 20)
    assert load_engine("vllm-v0").of_a_sequence(1) == load_engine("vllm-v0").of_a_sequence(20)
