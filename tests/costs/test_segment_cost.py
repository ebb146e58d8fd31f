"""Durations of segments: what is kept, and what is computed anew for every batch."""

from __future__ import annotations

import pytest

from simsys.build.device import build_device_spec
from simsys.config.architectures import listed_architectures
from simsys.config.hardware import load_gpu
from simsys.costs import segment_cost
from simsys.costs.segment_cost import SegmentCost
from simsys.model.batch import Batch
from simsys.model.precision import serving_precision
from simsys.model.transformer import build_transformer
from simsys.model.windows import in_serving, whole
from simsys.model.work import Precision, kernel_of
from simsys.parallel.passes import forward_pass
from simsys.platform.device_spec import kernel_seconds
from tests.costs.test_pass_cost import GPT, PER_LAYER_S, REAL


@pytest.mark.parametrize(
    ("batch", "again"),
    [(Batch(tokens=4.0, decode_sequences=4.0), 1), (Batch(tokens=4.0, attention_pairs=10.0), 2)],
    ids=["decode", "prompt"],
)
def test_only_attention_is_computed_anew_when_the_context_changes(
    batch: Batch, again: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = forward_pass(GPT).stretches[1].segments[0]
    cost = SegmentCost(layer, REAL, Precision(), PER_LAYER_S)
    asked: list[int] = []
    computed, linear = segment_cost._seconds, segment_cost._Kernels.seconds

    def counted(costs: list[segment_cost._OperatorCost], batch: Batch) -> float:
        asked[-1] += len(costs)
        return computed(costs, batch)

    def counted_too(kernels: segment_cost._Kernels, batch: Batch, tokens: float) -> float:
        asked[-1] += sum(len(each) for _, _, each in kernels._linear)
        return linear(kernels, batch, tokens)

    monkeypatch.setattr(segment_cost, "_seconds", counted)
    monkeypatch.setattr(segment_cost._Kernels, "seconds", counted_too)
    for context in (10.0, 20.0, 30.0):
        asked.append(0)
        cost.compute_seconds(batch._replace(decode_context_tokens=context))
    assert asked == [len(layer.operators), again, again]


@pytest.mark.parametrize("name", ["Llama3-8B", "DeepSeek-V3", "GPT-OSS-120B"])
@pytest.mark.parametrize("weights", ["bf16", "fp8_block", "int8"])
def test_every_operator_takes_what_its_kernel_takes(name: str, weights: str) -> None:
    """Most are costed by a shorter formula, which must not become another one."""
    architecture = next(each for each in listed_architectures() if each.name.casefold() == name.casefold())
    model = in_serving(build_transformer(architecture), whole)
    precision = serving_precision(weights, "fp8", "bf16")
    batches = (
        Batch(tokens=3.0, logits=3.0, decode_sequences=3.0, decode_context_tokens=900.0),
        Batch(tokens=700.0, logits=2.0, attention_pairs=9e4, prompt_context_tokens=64.0),
    )
    spec = build_device_spec(load_gpu("H100"))
    for operator in (each for block in dict.fromkeys(model.blocks) for each in block.operators):
        cost = segment_cost._OperatorCost(operator, spec, precision, {})
        for batch in batches:
            kernel = kernel_of(operator, batch, precision)
            expected = kernel_seconds(spec, kernel) if kernel.flop or kernel.nbytes else 0.0
            tokens = batch.logits if operator.per_logit else batch.tokens
            together = segment_cost._Kernels([cost]).seconds(batch, tokens)
            assert cost.seconds(batch) == pytest.approx(expected, rel=1e-12), operator.name
            assert together == pytest.approx(expected, rel=1e-12), operator.name
