"""The software stack that decides durations besides the hardware."""

from __future__ import annotations

from dataclasses import dataclass

from simsys.collectives.choose import Choose
from simsys.costs.jitter import Jitter
from simsys.costs.launches import NO_LAUNCHES, Launches
from simsys.model.work import Precision


@dataclass(frozen=True)
class ExecutionModel:
    """What decides durations besides the hardware: the software stack.

    Args:
        algorithm: Says how a group can carry out a kind of collective; the cheapest way is taken for each size.
        precision: Bytes per element and compute dtype of serving passes.
        per_layer_s: Host overhead per layer of every forward pass (and per layer of work in training).
        jitter: How computations vary, if they do.
        launches: How passes reach the GPU.
        stepping: Whether every run of serving steps is one step long.
        async_scheduling: Whether the host of a serving team works beside its steps, and not before each.
        communication_share: What share of a GPU collectives take from computations that go on beside them.
    """

    algorithm: Choose
    precision: Precision
    per_layer_s: float = 0.0
    jitter: Jitter | None = None
    launches: Launches = NO_LAUNCHES
    stepping: bool = False
    async_scheduling: bool = False
    communication_share: float = 0.0
