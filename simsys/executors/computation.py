"""How ranks compute: stepwise, an event for each computation, or ahead of the clock."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from simpy.events import Event

from simsys.executors.component import Component
from simsys.ops import Compute


class Stepwise(Component):
    """One event at the end of each computation on the rank's GPU; arguments as for `Component`."""

    aggregates: ClassVar[bool] = False
    """True if costs are per macro operation (`Model.aggregated`) instead of per layer."""

    def compute(self, op: Compute) -> Event:
        """Run kernels on one GPU as a task of the platform, which ends with the work."""
        if self.own is not None:
            self.own.submitted(op.rank)
        begun = partial(self._begun, op) if self.probes.operation or self.own is not None else None
        return self.platform.submit_computation_task(op.rank, partial(self.compute_speed.seconds, op), begun)

    def _begun(self, op: Compute, start_s: float, end_s: float) -> None:
        """The times of a computation are known."""
        for hook in self.probes.operation:
            hook(op, start_s, end_s)
        if self.own is not None:
            self.own.begun(op.rank, end_s)


class Ahead(Stepwise):
    """A rank runs ahead of the clock on its own GPU: macro operations that cost no event.

    It synchronises with the clock at the next communication or wait (temporal decoupling, as in IEEE 1666 SystemC
    TLM-2.0, §10). Since the GPU is a FIFO server used by this rank only, times are unchanged.
    """

    aggregates = True

    def compute(self, op: Compute) -> Event:
        """Advance the rank's GPU; the event is already processed, unless processes request the GPU, too."""
        if self.own is not None:
            return super().compute(op)
        begun = partial(self._begun, op) if self.probes.operation else None
        self.platform.reserve_computation(op.rank, partial(self.compute_speed.seconds, op), begun)
        return self.env.done
