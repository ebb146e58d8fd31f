"""Programs of training passes with transfers on links; operations without links are executed at once."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from simpy.events import Event

from simsys.errors import InternalError
from simsys.executors.communication.base import Communication
from simsys.executors.communication.selected import SelectedSteps
from simsys.executors.core import Core
from simsys.executors.iterations.pass_chains import PassChains
from simsys.executors.iterations.pass_sums import PassSums
from simsys.executors.iterations.played import PlayedPrograms
from simsys.executors.iterations.stretches import Stretch, stretches
from simsys.ops import Collective, Compute, Pass, PassOperation
from simsys.platform.traffic import Account


class StretchedPrograms(PlayedPrograms):
    """Passes one by one, since their ends depend on other transfers; operations between transfers need no event.

    The arguments are as for its parent; the communication must be `SelectedSteps`.
    """

    def __init__(self, core: Core, communication: Communication) -> None:
        super().__init__(core, communication)
        if not isinstance(communication, SelectedSteps):
            raise InternalError("stretches of passes need the users with transfers on links")
        self._selected, self._sums = communication, PassSums(core)
        self._chains = PassChains(core, communication, self._divide, self._advance)

    def carry_out(self, each: Pass) -> Generator[Event, Any, None]:
        """Operations without links at once, if the hardware is constant; other operations one by one."""
        if self.own is not None or self.core.varies():
            yield from super().carry_out(each)
            return
        yield self._chains.begin(each)

    def _divide(self, each: Pass) -> Sequence[Stretch | PassOperation]:
        return tuple(stretches(each.run, self._is_known, self._sums.add_to, self._account))

    def _is_known(self, op: PassOperation) -> bool:
        """Whether it is a computation, alone or with an overlapped collective of this rank alone on idle links."""
        if isinstance(op, Compute):
            return True
        group = (op if isinstance(op, Collective) else op.collective).group
        return not self._selected.is_carried(group) and self.members(group) == 1

    def _account(self, op: Collective) -> Account:
        return self.communicator(op.group).account(op.kind, op.nbytes)

    def _advance(self, stretch: Stretch) -> None:
        """Let a rank be at the end of a stretch, ahead of the clock."""
        rank = stretch.rank
        device, lost_s = self.platform.devices[rank], 0.0
        if stretch.computes:
            lost_s, device.lost_s = device.lost_s, 0.0
        start_s = self.now(rank) + lost_s
        times, seconds = stretch.times(device.launched_s - start_s)
        device.launched_s += stretch.launching_s
        device.busy_s += lost_s + times.busy_s
        device.free_at_s = start_s + seconds
        for account, nbytes in stretch.sent:
            account.nbytes += nbytes
        if self.probes.operation:
            self._sums.report(rank, stretch.name, times, start_s)
