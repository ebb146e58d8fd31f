"""Communication on links: collectives step by step and messages, concurrent with all other transfers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simpy.events import Event

from simsys.collectives.base import CollectiveKind
from simsys.executors.communication.base import Exchange
from simsys.executors.communication.lines import Line
from simsys.executors.communication.queued import QueuedCollectives
from simsys.executors.communicator import Communicator
from simsys.executors.core import Core
from simsys.executors.meeting import Part
from simsys.ops import Collective, Pipelined, Send, Transfer
from simsys.parallel.layout import Group
from simsys.platform.events import At, Callback
from simsys.platform.link_schedule import LinkSchedule
from simsys.platform.traffic import Account


class Steps(QueuedCollectives):
    """Starts transfers on the network and waits for their end; arguments as for `Component`."""

    queues = True

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self.contention = self.platform.network.contention
        self._fronts = core.fronts
        self._transfers: dict[tuple[Group, Group], tuple[Any, list[Account]]] = {}
        self._messages: dict[tuple[Group, Group, float], LinkSchedule[Any]] = {}
        self._lines: dict[tuple[Group, Group], Line] = {}

    def carry(self, op: Send) -> Event:
        """Start a message on the links; fires when it has arrived."""
        return self.platform.submit_network_transfer_task(op.rank, op.dst, op.nbytes)

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
        network, started_s = self.platform.network, self.env._now
        found = self._transfers.get((op.source, op.target))
        if found is None:
            accounts = [network.traffic.between(src, dst) for src, dst in op.pairs]
            found = self._transfers[op.source, op.target] = network.prepare(op.pairs), accounts
        prepared, accounts = found
        for account in accounts:
            account.nbytes += op.nbytes
        arrived = network.begin(prepared, op.nbytes)
        if self.probes.operation:

            def done(_: Event) -> None:
                for hook in self.probes.operation:
                    hook(op, started_s, self.env._now)

            arrived.callbacks.append(done)
        return arrived

    def hand_on(self, op: Pipelined, stage: int, arrived: Callback) -> None:
        """All ranks of the stage send at once."""
        nbytes = self.idle.handed_on_bytes(op, stage)
        pairs = op.transfers(stage)
        key = op.passes[stage].team, op.passes[stage + 1].team, nbytes
        found = self._messages.get(key)
        if found is None:
            steps = [(pairs, nbytes, 1, 0.0)] if nbytes else []
            found = self._messages[key] = self.platform.network.schedule(steps)
        for src, dst in pairs:
            self.platform.network.traffic.between(src, dst).nbytes += nbytes
        self._lines.setdefault(key[:2], Line()).send(found.start, arrived)

    def exchange(self, communicator: Communicator, kind: CollectiveKind, nbytes: float) -> Exchange:
        """Its steps on the links."""
        return communicator.recurring(kind, nbytes)


class MirroredSteps(Steps):
    """Transfers of representative ranks and of their mirrors on the links."""

    joins_steps = True

    def carry(self, op: Send) -> Event:
        """A message, with the messages of all mirrors."""
        self.idle.tally.sent(op)
        return self.idle.lanes.carry(op.rank, op.dst, op.nbytes)
