"""Medium detail on shared links: collectives and messages are carried out on the links, those of mirrors included."""

from __future__ import annotations

import math
from collections.abc import Collection, Generator, Sequence
from typing import Any

from simpy.events import Event

from simsys.executors.base import Executor
from simsys.executors.carried import CarriedTransfers
from simsys.executors.iterations.stretches import Stretch, stretches
from simsys.executors.medium import MediumDetail
from simsys.executors.meeting import Meeting
from simsys.ops import Collective, Compute, Pass, PassOperation, Program, Send
from simsys.parallel.layout import Group
from simsys.platform.traffic import Account


class OnLinksDetail(CarriedTransfers, MediumDetail):
    """Roles and macro operations as at medium, and the network of high; takes the arguments of `Executor`.

    A collective is one event while its links are uncontended, and else goes on step by step. The transfers of all
    mirrors are on the links with those of the simulated group. Passes of programs are carried out one by one, since
    when they end depends on others. Transfers of groups that meet nobody take the time of idle links, and so does what
    serving teams exchange within their steps.
    """

    joins_steps = True
    stepwise = True
    carried: Collection[tuple[int, ...]] | None = None
    """Whose transfers are on the links: ranks of groups, source and destination of messages; None stands for all."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._on_links: dict[Group, bool] = {}
        self._divided: dict[Pass, Sequence[Stretch | PassOperation]] = {}

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

    def _is_carried(self, group: Group) -> bool:
        if self.carried is None:
            return True
        found = self._on_links.get(group)
        if found is None:
            found = self._on_links[group] = group.ranks in self.carried
        return found

    def run_collective(self, meeting: Meeting, ready_s: float) -> None:
        """On the links, unless its group meets nobody."""
        if self._is_carried(meeting.op.group):
            super().run_collective(meeting, ready_s)
        else:
            MediumDetail.run_collective(self, meeting, ready_s)

    def send(self, op: Send) -> Event:
        """Over the links, unless such messages meet nobody."""
        if self.carried is None or (op.rank, op.dst) in self.carried:
            return super().send(op)
        return MediumDetail.send(self, op)

    def carry(self, op: Send) -> Event:
        """Its message and those of all mirrors."""
        self.tally.sent(op)
        return self.lanes.carry(op.rank, op.dst, op.nbytes)

    def program(self, op: Program) -> Event:
        """Run the passes one by one."""
        return Executor.program(self, op)

    def carry_out(self, each: Pass) -> Generator[Event, Any, None]:
        """What is on no links at once, if the hardware stays as it is; the rest one by one."""
        changes = self.conditions.iterations_vary or self.platform.next_change_s(0.0) < math.inf
        if changes or self.own is not None:
            yield from super().carry_out(each)
            return
        found = self._divided.get(each)
        if found is None:
            found = self._divided[each] = tuple(stretches(each.run, self._is_known, self.add_to, self._account))
        for part in found:
            if isinstance(part, Stretch):
                self._advance(part)
            else:
                yield self.start(part)

    def _is_known(self, op: PassOperation) -> bool:
        """Whether it is a computation, alone or beside a collective of no other simulated rank that meets nobody."""
        if isinstance(op, Compute):
            return True
        group = (op if isinstance(op, Collective) else op.collective).group
        return not self._is_carried(group) and self._members(group) == 1

    def _account(self, op: Collective) -> Account:
        return self.communicator(op.group).account(op.kind, op.nbytes)

    def _advance(self, stretch: Stretch) -> None:
        """Let a rank be at the end of a stretch, ahead of the clock."""
        rank = stretch.rank
        device, lost_s = self.platform.devices[rank], 0.0
        if stretch.computes:
            lost_s, device.lost_s = device.lost_s, 0.0
        start_s = self.now(rank) + lost_s
        times = stretch.times(device.launched_s - start_s)
        device.launched_s += stretch.launching_s
        device.busy_s += lost_s + times.compute_s
        device.free_at_s = start_s + times.seconds
        for account, nbytes in stretch.sent:
            account.nbytes += nbytes
        if self.probes.operation:
            self.tell_times(rank, stretch.name, times, start_s)
