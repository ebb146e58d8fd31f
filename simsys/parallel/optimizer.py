"""The optimizer's update: element-wise work, bound by the bandwidth of device memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from simsys.model.operators import OperatorKind
from simsys.model.work import FP32_BYTES, Kernel, Work

HALF_BYTES = 2.0


class UpdatePass(NamedTuple):
    """One element-wise kernel over all weights: fp32 values that it reads and writes for each."""

    operation: str
    reads: int
    writes: int


FUSED: Mapping[str, tuple[UpdatePass, ...]] = {
    # Kingma & Ba 2015, alg. 1, in one kernel, as torch.optim.Adam(fused=True) and Apex's FusedAdam: 28 bytes.
    "adam": (UpdatePass("weight, momentum, variance; gradient is read only", 4, 3),),
    # With momentum: 20 bytes.
    "sgd": (UpdatePass("weight, momentum; gradient is read only", 3, 2),),
}
UNFUSED: Mapping[str, tuple[UpdatePass, ...]] = {
    # `_single_tensor_adam` of torch/optim/adam.py, without weight decay and amsgrad: 72 bytes. In older versions the
    # first pass was two, mul_ and add_: 80 bytes.
    "adam": (
        UpdatePass("exp_avg.lerp_(grad, 1 - beta1)", 2, 1),
        UpdatePass("exp_avg_sq.mul_(beta2)", 1, 1),
        UpdatePass("exp_avg_sq.addcmul_(grad, grad, 1 - beta2)", 2, 1),
        UpdatePass("exp_avg_sq.sqrt()", 1, 1),
        UpdatePass("/ bias_correction2_sqrt", 1, 1),
        UpdatePass("denom.add_(eps)", 1, 1),
        UpdatePass("param.addcdiv_(exp_avg, denom, -step_size)", 3, 1),
    ),
    # `_single_tensor_sgd` of torch/optim/sgd.py with momentum, without weight decay and Nesterov: 32 bytes.
    "sgd": (
        UpdatePass("buf.mul_(momentum)", 1, 1),
        UpdatePass("buf.add_(grad, 1 - dampening)", 2, 1),
        UpdatePass("param.add_(buf, -lr)", 2, 1),
    ),
}


def update_work(optimizer: str, parameters: float, *, fused: bool = True, half_copy: bool = False) -> Work:
    """The work of updating `parameters` weights.

    One kernel per pass: the launches for each tensor of an unfused optimizer are host overhead that is not counted,
    since their number depends on how the framework cuts the weights into tensors.

    Args:
        optimizer: A key of `FUSED` and `UNFUSED`.
        parameters: Weights that this rank updates.
        fused: One kernel for all operations, or one for each.
        half_copy: Also write the weights in 16 bit, for the passes of mixed precision; a fused kernel does it along
            the way, else one more reads the weights.
    """
    passes = FUSED[optimizer] if fused else UNFUSED[optimizer]
    sizes = [FP32_BYTES * (each.reads + each.writes) for each in passes]
    if half_copy and fused:
        sizes[-1] += HALF_BYTES
    elif half_copy:
        sizes.append(FP32_BYTES + HALF_BYTES)
    return Work(
        tuple(Kernel(OperatorKind.MEMORY, flop=0.0, nbytes=size * parameters, role="update") for size in sizes)
    )
