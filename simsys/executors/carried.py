"""Communication that the links carry: collectives step by step, messages at once, in the company of all others."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from simpy.events import Event

from simsys.executors.communicator import Communicator
from simsys.executors.meeting import Part
from simsys.executors.queued import QueuedCollectives
from simsys.ops import Collective, Send, Transfer
from simsys.platform.events import At


class CarriedTransfers(QueuedCollectives):
    """Starts transfers on the network and waits for their end; takes the arguments of `Executor`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.contention = self.platform.network.contention

    @abstractmethod
    def carry(self, op: Send) -> Event:
        """Start a message on the links, and those that mirrors of its rank send; fires when all have arrived."""

    def parts(self, communicator: Communicator, op: Collective) -> Sequence[Part]:
        """The steps on the links."""
        return communicator.parts(op.kind, op.nbytes)

    def send(self, op: Send) -> Event:
        """Transfer over the links of the route once the rank's computation is done."""
        delivered = self.mail.event(op.rank, op.dst, op.tag, receiving=False)
        start_s = self.now(op.rank)

        def arrived(_: Event) -> None:
            for hook in self.probes.operation:
                hook(op, start_s, self.env._now)
            delivered.succeed(start_s)

        def depart(_: Event | None = None) -> None:
            self.carry(op).callbacks.append(arrived)

        if self._fronts[op.rank].free_at_s < self.env._now:
            depart()
        else:  # also at the very moment the computation ends, when an earlier message may be about to depart
            At(self.env, start_s, depart)
        return delivered

    def transfer(self, op: Transfer) -> Event:
        """All messages over the links at once."""
        arrived, network, started_s = Event(self.env), self.platform.network, self.env._now

        def done(_: Event) -> None:
            for hook in self.probes.operation:
                hook(op, started_s, self.env._now)
            arrived.succeed()

        for src, dst in op.pairs:
            network.traffic.between(src, dst).nbytes += op.nbytes
        network.schedule([(op.pairs, op.nbytes, 1, 0.0)]).start(done)
        return arrived
