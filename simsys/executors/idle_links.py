"""Transfers on idle links: durations, traffic, and contention if they were on links."""

from __future__ import annotations

from collections.abc import Callable

from simsys.executors.images import Images
from simsys.executors.lanes import Lanes
from simsys.executors.meets import Meets
from simsys.executors.mirrors import AnyNetwork
from simsys.executors.steps.channels import Channels
from simsys.executors.tally import Tally
from simsys.model.work import Precision
from simsys.ops import Pipelined, Send, Transfer


class IdleLinks:
    """Closed forms of transfers, with records of traffic for transfers without events on links.

    Args:
        network: The network.
        images: Finds the groups represented by simulated ones.
        tally: Counts traffic.
        now: The simulated time in seconds.
        precision: Bytes per element of messages between pipeline stages.
    """

    def __init__(
        self, network: AnyNetwork, images: Images, tally: Tally, now: Callable[[], float], precision: Precision
    ) -> None:
        self.tally = tally
        """Counter of traffic."""
        self.lanes = Lanes(network, images)
        """Durations of messages."""
        self.meets = Meets(network, now)
        """Whether transfers would have met."""
        self.channels = Channels()
        """Time of messages between stages of serving pipelines."""
        self._network, self._precision = network, precision

    def transfer(self, op: Transfer, start_s: float) -> float:
        """Count a transfer that begins at a time; return its duration."""
        for src, dst in op.pairs:
            self._network.traffic.between(src, dst).nbytes += op.nbytes
        return self.lanes.between_s(op.source, op.target, op.pairs, op.nbytes, start_s)

    def handed_on_bytes(self, op: Pipelined, stage: int) -> float:
        """Bytes that each rank of a stage sends to the next one."""
        return op.elements(stage) * self._precision.activation_bytes

    def handed_on(self, op: Pipelined, stage: int) -> Send | None:
        """Bytes from the first rank of a stage to the next one."""
        nbytes = self.handed_on_bytes(op, stage)
        return Send(*op.transfers(stage)[0], nbytes, None, op.name) if nbytes else None

    def hand_on_seconds(self, op: Pipelined, stage: int, start_s: float = 0.0) -> float:
        """Transfer time of hidden states to the next stage, with all ranks sending."""
        send = self.handed_on(op, stage)
        if send is None:
            return 0.0
        source, target = op.passes[stage].team, op.passes[stage + 1].team
        return self.lanes.between_s(source, target, op.transfers(stage), send.nbytes, start_s)

    def hand_on(self, op: Pipelined, stage: int, start_s: float) -> float:
        """Count a message between stages; return its duration."""
        send = self.handed_on(op, stage)
        if send is not None:
            self.tally.sent(send)
        return self.hand_on_seconds(op, stage, start_s)
