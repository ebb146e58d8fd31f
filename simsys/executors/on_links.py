"""Medium detail on shared links: collectives and messages are carried out on the links, those of mirrors included."""

from __future__ import annotations

from collections.abc import Sequence

from simpy.events import Event

from simsys.executors.base import Executor
from simsys.executors.carried import CarriedTransfers
from simsys.executors.medium import MediumDetail
from simsys.ops import Program, Send


class OnLinksDetail(CarriedTransfers, MediumDetail):
    """Roles and macro operations as at medium, and the network of high; takes the arguments of `Executor`.

    A collective is one event while its links are uncontended, and else goes on step by step. The transfers of all
    mirrors are on the links with those of the simulated group. Passes of programs are carried out one by one, since
    when they end depends on others. What serving teams exchange within their steps takes the time of idle links.
    """

    joins_steps = True

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

    def carry(self, op: Send) -> Event:
        """Its message and those of all mirrors."""
        self.tally.sent(op)
        return self.platform.network.carry(self.lanes.pairs(op.rank, op.dst), op.nbytes)

    def program(self, op: Program) -> Event:
        """Run the passes one by one."""
        return Executor.program(self, op)
