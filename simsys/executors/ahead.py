"""Macro operations: computations that cost no event, since a rank's GPU serves nobody else."""

from __future__ import annotations

from functools import partial

from simpy.events import Event

from simsys.executors.base import Executor
from simsys.ops import Compute


class ComputeAhead(Executor):
    """A rank runs ahead of the clock on its own GPU; takes the arguments of `Executor`.

    It meets the clock again at the next communication or wait (temporal decoupling, as in IEEE 1666 SystemC TLM-2.0,
    §10). Since the GPU is a FIFO server that nobody else uses, this changes no time.
    """

    aggregates = True

    def compute(self, op: Compute) -> Event:
        """Advance the rank's GPU; the event has already happened, unless others request the GPU too."""
        if self.own is not None:
            return self.submit(op)
        begun = partial(self.begun, op) if self.probes.operation else None
        self.platform.reserve_computation(op.rank, partial(self.conditions.seconds, op), begun)
        return self.env.done
