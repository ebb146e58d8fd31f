"""Kernels of training as a program carries them out: fused, or as several kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from simsys.model.adapters import dequantized
from simsys.model.batch import Batch
from simsys.model.feed_forward import is_of_experts
from simsys.model.operators import Operator
from simsys.model.work import Work, forward_work, training_work
from simsys.parallel.plan import StepSettings

EAGER_NORM = 5.0
"""Ratio for an eager RMSNorm.

Cast to fp32, squares, mean, product, cast back and another product move 34 bytes per element. The residual sum before
it moves 6, instead of 8 for all together.
"""

EAGER_SCORES = 3.0
"""What scores in 16 bit move if scaling, mask, softmax in fp32 and the cast back are kernels of their own.

That is 24 bytes for each instead of 8, without dropout.
"""


def work_of(operators: Sequence[Operator], batch: Batch, settings: StepSettings, *, layers: float) -> Work:
    """The work of one forward pass over operators, with the kernels that the settings name."""
    work = forward_work(carried_out(operators, settings), batch, settings.precision, layers=layers)
    return training_work(
        dequantized(work, operators),
        attention=settings.attention_effort,
        scores=EAGER_SCORES if settings.eager_scores else 1.0,
        memory=settings.elementwise,
    )


def carried_out(operators: Sequence[Operator], settings: StepSettings) -> Sequence[Operator]:
    """The operators with norms and element-wise kernels of experts as they are carried out."""
    norms, experts = EAGER_NORM, settings.expert_elementwise / settings.elementwise
    if not settings.eager_norms and experts == 1.0:
        return operators
    factors = [
        norms if settings.eager_norms and op.name.endswith("_norm") else experts if is_of_experts(op) else 1.0
        for op in operators
    ]
    pairs = zip(operators, factors, strict=True)
    return [replace(op, elements_per_token=op.elements_per_token * factor) for op, factor in pairs]
