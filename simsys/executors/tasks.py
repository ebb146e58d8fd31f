"""How executors reach GPUs: computations of ranks are tasks of the platform."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any

from simpy.events import Event

from simsys.costs.compute_speed import ComputeSpeed
from simsys.executors.clocks import Clocks
from simsys.executors.own_work import SERVING, OwnWork
from simsys.ops import Compute
from simsys.platform.device import Device


class Tasks(Clocks):
    """Computations of ranks, in the queues of their GPUs; takes the arguments of `Clocks`."""

    conditions: ComputeSpeed
    """How fast ranks compute."""

    def submit(self, op: Compute) -> Event:
        """Run kernels on one GPU as a task of the platform, which ends with the work."""
        if self.own is not None:
            self.own.submitted(op.rank)
        begun = partial(self.begun, op) if self.probes.operation or self.own is not None else None
        return self.platform.submit_computation_task(op.rank, partial(self.conditions.seconds, op), begun)

    def begun(self, op: Compute, start_s: float, end_s: float) -> None:
        """The times of a computation are known."""
        for hook in self.probes.operation:
            hook(op, start_s, end_s)
        if self.own is not None:
            self.own.begun(op.rank, end_s)

    def serves(self) -> None:
        """A serving team begins: GPUs cannot be requested, since its passes do not queue for them."""
        if self.own is not None:
            self.own.refuse(Device, SERVING)

    def with_own_work(self, rank: int, steps: Generator[Any, Any, None]) -> Generator[Any, Any, None]:
        """The process of a rank; it does not end before it is known when the computations of the rank end."""
        return steps if self.own is None else _until_begun(self.own, rank, steps)


def _until_begun(own: OwnWork, rank: int, steps: Generator[Any, Any, None]) -> Generator[Any, Any, None]:
    yield from steps
    event = own.all_begun(rank)
    if event is not None:
        yield event
