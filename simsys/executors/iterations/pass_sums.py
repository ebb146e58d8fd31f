"""Sums of the times of a rank's passes by activity, and their report to the probes."""

from __future__ import annotations

from simsys.executors.component import Component
from simsys.executors.core import Core
from simsys.executors.iterations.pass_times import PassTimes
from simsys.model.work import Work
from simsys.ops import Collective, Compute, Operation, Pass, PassOperation


class PassSums(Component):
    """Sums over the operations of passes on idle links; arguments as for `Component`."""

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self.as_of_s = 0.0
        """The time as of which the speed of hardware is looked up."""
        self._times_of: dict[Pass, PassTimes] = {}
        self._computes: dict[tuple[int, str], Compute] = {}

    def forget(self) -> None:
        """The hardware has changed."""
        self._times_of.clear()

    def of(self, each: Pass) -> PassTimes:
        """Time of a pass by activity, summed once."""
        found = self._times_of.get(each)
        if found is None:
            found = self._times_of[each] = PassTimes()
            for op in each.run:
                self.add_to(found, op)
        return found

    def add_to(self, times: PassTimes, op: PassOperation) -> None:
        """Count an operation of a pass."""
        if isinstance(op, Compute):
            times.compute(*self.compute_speed.costs(op, self.as_of_s))
        elif isinstance(op, Collective):
            times.exchange(op, self._collective_seconds(op))
        else:
            compute_s = times.compute(*self.compute_speed.costs(op.compute, self.as_of_s))
            times.exchange(op.collective, self._collective_seconds(op.collective), compute_s)

    def _collective_seconds(self, op: Collective) -> float:
        return self.communicator(op.group).seconds(op.kind, op.nbytes, self.as_of_s)

    def report(self, rank: int, name: str, times: PassTimes, start_s: float) -> float:
        """Report computation, and communication along each axis, to the probes, one after another; return the end (s).

        Overlapped communication ends with the computation.
        """
        now_s = computed_s = start_s + times.compute_s
        compute = self._computes.get((rank, name))
        if compute is None:
            compute = self._computes[rank, name] = Compute(rank, Work(), name)
        if not times.exchanges:
            for hook in self.probes.operation:
                hook(compute, start_s, computed_s)
            return now_s
        spans: list[tuple[Operation, float, float]] = [(compute, start_s, computed_s)]
        for each in times.exchanges.values():
            if each.overlapped_s:
                spans.append((each.op, computed_s - each.overlapped_s, computed_s))
            if each.alone_s:
                spans.append((each.op, now_s, now_s + each.alone_s))
                now_s += each.alone_s
        for span in spans:
            for hook in self.probes.operation:
                hook(*span)
        return now_s
