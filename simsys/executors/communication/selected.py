"""Contending transfers are simulated on links; other transfers have the time of idle links."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from simpy.events import Event

from simsys.executors.communication.closed_form import ClosedForms
from simsys.executors.communication.steps import MirroredSteps
from simsys.executors.core import Core
from simsys.executors.meeting import Meeting
from simsys.ops import Send
from simsys.parallel.layout import Group


class SelectedSteps(MirroredSteps):
    """The network of high for some groups and messages; arguments as for `Component`.

    A collective is one event while uncontended, and continues step by step otherwise. The transfers of the simulated
    group and of all its mirrors are on the links. Communication within serving steps has the time of idle links.
    """

    carried: Collection[tuple[int, ...]] | None = None
    """Users with transfers on links: ranks of groups, source and destination of messages; None for all."""

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self._closed_forms = ClosedForms(core, notes=False)  # what meets is known
        self._on_links: dict[Group, bool] = {}

    def is_carried(self, group: Group) -> bool:
        """Whether the collectives of a group are on the links."""
        if self.carried is None:
            return True
        found = self._on_links.get(group)
        if found is None:
            found = self._on_links[group] = group.ranks in self.carried
        return found

    def run_collective(self, meeting: Meeting, ready_s: float) -> None:
        """Execute a collective on the links, unless its group is uncontended."""
        if self.is_carried(meeting.op.group):
            super().run_collective(meeting, ready_s)
        else:
            self._closed_forms.run_collective(meeting, ready_s)

    def send(self, op: Send) -> Event:
        """Send a message over the links, unless such messages are uncontended."""
        if self.carried is None or (op.rank, op.dst) in self.carried:
            return super().send(op)
        return self._closed_forms.send(op)

    def counters(self) -> list[float]:
        """Traffic of the links."""
        return self.platform.network.counters()

    def repeat(self, sent: Sequence[float], count: int) -> None:
        """The links carry as much again."""
        self.platform.network.repeat(sent, count)
