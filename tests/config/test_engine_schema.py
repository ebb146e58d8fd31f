"""Engine profiles: what releases do on which platforms."""

from __future__ import annotations

import pytest

from simsys.config.hardware import load_engine, load_gpu


@pytest.mark.parametrize(
    ("release", "early"),
    [("0.4", True), ("0.6.1", True), ("0.6.2", False), ("0.6", False), ("0.7.3", False), ("1", False)],
)
def test_early_attention_ends_with_a_release_on_rocm(release: str, early: bool) -> None:
    engine = load_engine("vllm-v0")
    assert engine.decodes_early(release, load_gpu("MI300X")) is early
    assert not engine.decodes_early(release, load_gpu("H100-SXM"))


def test_other_engines_have_none() -> None:
    assert not load_engine("vllm").decodes_early("0.6.1", load_gpu("MI300X"))


def test_a_sequence_costs_less_where_its_tokens_are_sent_together() -> None:
    engine = load_engine("tensorrt-llm")
    assert engine.per_output
    assert engine.of_a_sequence(1) == pytest.approx(engine.per_sequence + engine.per_output)
    assert engine.of_a_sequence(20) == pytest.approx(engine.per_sequence + engine.per_output / 20)
    assert load_engine("vllm-v0").of_a_sequence(1) == load_engine("vllm-v0").of_a_sequence(20)
