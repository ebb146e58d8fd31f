"""Passes with segments as events: each layer, or all computation before all collectives."""

from __future__ import annotations

from simpy.events import Event

from simsys.executors.communication.base import Communication, Exchange
from simsys.executors.core import Core
from simsys.executors.steps.pass_queue import PassQueue, PipelineRun
from simsys.executors.steps.pass_run import PassRuns, TimedSegment
from simsys.executors.steps.serving_passes import ServingPasses
from simsys.ops import Forward, Pipelined
from simsys.parallel.layout import Group
from simsys.platform.events import Callback
from simsys.sums import ordered_sum


class SegmentPasses(ServingPasses):
    """An event at the end of every segment and one after every collective; the arguments are its parent's."""

    def __init__(self, core: Core, communication: Communication) -> None:
        super().__init__(core, communication)
        self._queues: dict[Group, PassQueue] = {}

    def forward(self, op: Forward) -> Event:
        """A chain of events through the layers, each on every rank of the team."""
        return self.pass_queue(op.team).add(op)

    def pipelined(self, op: Pipelined) -> Event:
        """A chain of segments on each stage, and transfers between them."""
        return PipelineRun(self, op).event

    def stop(self) -> None:
        """Let current segments end, since other transfers may wait for their links."""
        for queue in self._queues.values():
            queue.stop()

    def pass_queue(self, team: Group) -> PassQueue:
        """The passes of a team, which run one after another."""
        found = self._queues.get(team)
        if found is None:
            found = self._queues[team] = PassQueue(self.env, PassRuns(self.core, team, self.segments))
        return found

    def stage_pass(self, op: Forward, ready_s: float | None = None) -> Event:
        """In the order in which the batches reach the stage."""
        return self.pass_queue(op.team).add(op, ready_s)

    def hand_on(self, op: Pipelined, stage: int, arrived: Callback) -> None:
        """As the hidden states are communicated."""
        self.communication.hand_on(op, stage, arrived)

    def segments(self, op: Forward) -> list[TimedSegment]:
        """The segments of a pass in order."""
        found: list[TimedSegment] = []
        communicator, exchange_of = self.communicator(op.team), self.communication.exchange
        for repeat, segments in self.pass_cost(op).by_segment(op.batch):
            timed: list[TimedSegment] = []
            for each in segments:
                if each.kind is None or communicator.trivial(each.nbytes):
                    timed.append((each.name, each.compute_s, None, 0.0))
                else:
                    exchange = exchange_of(communicator, each.kind, each.nbytes)
                    timed.append((each.name, each.compute_s, exchange, exchange.idle_s))
            found += timed * repeat
        return found


class FoldedPasses(SegmentPasses):
    """All computation of a pass as one event, and then its collectives, one after another."""

    def segments(self, op: Forward) -> list[TimedSegment]:
        """One segment for all layers."""
        layers = super().segments(op)
        compute_s = ordered_sum(alone_s for _, alone_s, _, _ in layers)
        exchanges = [exchange for _, _, exchange, _ in layers if exchange is not None]
        if not exchanges:
            return [(op.name, compute_s, None, 0.0)]
        together = InTurn(exchanges)
        return [(op.name, compute_s, together, together.idle_s)]


class InTurn:
    """Collectives that follow one another, as one.

    Args:
        exchanges: In order.
    """

    def __init__(self, exchanges: list[Exchange]) -> None:
        self._exchanges = exchanges
        self.idle_s = ordered_sum(each.idle_s for each in exchanges)

    def seconds(self, start_s: float) -> float:
        """Duration on idle links from a start time."""
        end_s = start_s
        for each in self._exchanges:
            end_s += each.seconds(end_s)
        return end_s - start_s

    def start(self, done: Callback) -> None:
        """Carry them out from now on, and then call `done`."""
        left = iter(self._exchanges)
        last = len(self._exchanges)

        def go_on(event: Event) -> None:
            nonlocal last
            last -= 1
            if last:
                next(left).start(go_on)
            else:
                done(event)

        next(left).start(go_on)
