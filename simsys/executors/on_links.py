"""Medium detail on shared links: collectives and messages are carried out on the links, those of mirrors included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simpy.events import Event

from simsys.executors.base import Executor
from simsys.executors.communicator import Communicator
from simsys.executors.medium import MediumDetail
from simsys.executors.meeting import Part
from simsys.executors.queued import QueuedCollectives
from simsys.ops import Collective, Program, Send
from simsys.platform.environment import At


class OnLinksDetail(QueuedCollectives, MediumDetail):
    """Roles and macro operations as at medium, and the network of high; takes the arguments of `Executor`.

    A collective is one event while its links are uncontended, and else goes on step by step. The transfers of all
    mirrors are on the links with those of the simulated group. Passes of programs are carried out one by one, since
    when they end depends on others.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.contention = self.platform.network.contention

    def sent_bytes(self) -> list[float]:
        """What the links have carried, and what has been sent, account by account of the communication graph."""
        return [*self.platform.network.counters(), *super().sent_bytes()]

    def repeat(
        self,
        ranks: Sequence[int],
        count: int,
        *,
        like: int,
        iteration_s: float,
        busy_s: Sequence[float],
        sent_bytes: Sequence[float],
    ) -> float:
        """As `Clocks.repeat`; the links carry as much again."""
        carried = len(self.platform.network.counters())
        self.platform.network.repeat(sent_bytes[:carried], count)
        return super().repeat(
            ranks, count, like=like, iteration_s=iteration_s, busy_s=busy_s, sent_bytes=sent_bytes[carried:]
        )

    def parts(self, communicator: Communicator, op: Collective) -> Sequence[Part]:
        """The steps on the links."""
        return communicator.parts(op.kind, op.nbytes)

    def send(self, op: Send) -> Event:
        """Transfer over the links of the route, as all mirrors do, once the rank's computation is done."""
        delivered = self.mail.event(op.rank, op.dst, op.tag, receiving=False)
        self.tally.sent(op)
        start_s = self.now(op.rank)

        def arrived(_: Event) -> None:
            for hook in self.probes.operation:
                hook(op, start_s, self.env._now)
            delivered.succeed(start_s)

        def depart(_: Event | None = None) -> None:
            pairs = self.lanes.pairs(op.rank, op.dst)
            self.platform.network.carry(pairs, op.nbytes).callbacks.append(arrived)

        if self.platform.devices[op.rank].free_at_s < self.env._now:
            depart()
        else:  # also at the very moment the computation ends, when an earlier message may be about to depart
            At(self.env, start_s, depart)
        return delivered

    def program(self, op: Program) -> Event:
        """Run the passes one by one."""
        return Executor.program(self, op)
