"""The software stack, which determines durations together with the hardware."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from simsys.collectives.choose import Choose
from simsys.costs.jitter import Jitter
from simsys.costs.launches import NO_LAUNCHES, Launches
from simsys.costs.measured_passes import MeasuredPasses
from simsys.model.work import Precision


@dataclass(frozen=True)
class ExecutionModel:
    """Parameters of the software stack.

    Args:
        algorithm: Selects the plans for a kind of collective of a group; the fastest is used for each size.
        precision: Bytes per element and compute dtype of serving passes.
        per_layer_s: Host overhead per layer of every forward pass (and per layer of work in training).
        jitter: Random variation of computations, or None.
        launches: Kernel launches of passes.
        stepping: True if every run of serving steps is one step long.
        async_scheduling: True if the host of a serving team overlaps with its steps.
        own_algorithms: Selectors of groups of their own, by their ranks.
        communication_share: Slow-down of concurrent computation by overlapped collectives, as a share of their
            duration.
        passes: Measured passes of serving, in place of the costs of kernels and collectives.
    """

    algorithm: Choose
    precision: Precision
    per_layer_s: float = 0.0
    jitter: Jitter | None = None
    launches: Launches = NO_LAUNCHES
    stepping: bool = False
    async_scheduling: bool = False
    own_algorithms: Mapping[tuple[int, ...], Choose] = field(default_factory=dict)
    communication_share: float = 0.0
    passes: MeasuredPasses | None = None
