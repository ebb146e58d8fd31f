"""High detail, the definition: every rank a process, every layer an event, every collective its steps on links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simpy.events import Event

from simsys.executors.carried import CarriedTransfers
from simsys.executors.steps.pass_queue import Line, PassQueue, PipelineRun
from simsys.executors.steps.pass_run import PassRuns
from simsys.ops import Compute, Forward, Pipelined, Send
from simsys.parallel.layout import Group
from simsys.platform.events import Callback
from simsys.platform.schedule import Schedule


class HighDetail(CarriedTransfers):
    """Layers, ranks and transfers one by one; takes the arguments of `Executor`."""

    stepwise = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._queues: dict[Group, PassQueue] = {}
        self._messages: dict[tuple[Group, Group, float], Schedule[Any]] = {}
        self._lines: dict[tuple[Group, Group], Line] = {}

    @staticmethod
    def stand_in(role: Sequence[int], rank: int) -> int:
        """Every rank stands for itself."""
        return rank

    def compute(self, op: Compute) -> Event:
        """One event at the end of the work on the rank's GPU."""
        return self.submit(op)

    def forward(self, op: Forward) -> Event:
        """A chain of events through the layers, each on every rank of the team."""
        return self.pass_queue(op.team).add(op)

    def pipelined(self, op: Pipelined) -> Event:
        """Such a chain on each stage, and transfers between them."""
        return PipelineRun(self, op).event

    def stop(self) -> None:
        """Segments under way end, since others may wait for their links."""
        for queue in self._queues.values():
            queue.stop()

    def pass_queue(self, team: Group) -> PassQueue:
        """The passes of a team, which run one after another."""
        found = self._queues.get(team)
        if found is None:
            found = self._queues[team] = PassQueue(self.env, PassRuns(self, team))
        return found

    def stage_pass(self, op: Forward, ready_s: float | None = None) -> Event:
        """In the order in which the batches reach the stage."""
        return self.pass_queue(op.team).add(op, ready_s)

    def hand_on(self, op: Pipelined, stage: int, arrived: Callback) -> None:
        """Send the hidden states from each rank of a stage to its neighbour in the next."""
        nbytes = self.handed_on_bytes(op, stage)
        pairs = op.transfers(stage)
        key = op.passes[stage].team, op.passes[stage + 1].team, nbytes
        found = self._messages.get(key)
        if found is None:
            steps = [(pairs, nbytes, 1, 0.0)] if nbytes else []
            found = self._messages[key] = self.platform.network.schedule(steps)
        for src, dst in pairs:
            self.platform.network.traffic.between(src, dst).nbytes += nbytes
        self._lines.setdefault(key[:2], Line()).send(found.start, arrived)

    def carry(self, op: Send) -> Event:
        """Its own message; every rank sends for itself."""
        return self.platform.submit_network_transfer_task(op.rank, op.dst, op.nbytes)
