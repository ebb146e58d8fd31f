"""Consecutive operations of a pass with known times, joined to one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from simsys.executors.iterations.pass_times import PassTimes
from simsys.ops import Collective, Compute, PassOperation
from simsys.platform.traffic import Account

Add = Callable[[PassTimes, PassOperation], None]
"""Counts an operation."""


class Stretch:
    """Computations, and collectives with a single simulated rank on idle links.

    Args:
        ops: The operations, in order.
        add: Counts one of them.
        account: Where a collective is counted in the communication graph.
    """

    def __init__(self, ops: Iterable[PassOperation], add: Add, account: Callable[[Collective], Account]) -> None:
        self._ops, self._add = tuple(ops), add
        self._times = PassTimes(launched_s=float("-inf"))  # as if all were launched long before
        self._launches = PassTimes()
        self.rank, self.name = self._ops[0].rank, self._ops[0].name
        """The rank, and the purpose of the first operation."""
        launched_s, self._slack_s = 0.0, float("inf")
        for op in self._ops:
            add(self._times, op)
            before_s = self._launches.launched_s
            add(self._launches, op)
            launched_s = self._launches.launched_s
            if launched_s > before_s:
                self._slack_s = min(self._slack_s, self._times.seconds - launched_s)
        self._seconds, self._launching_s = self._times.seconds, self._launches.seconds
        self.launching_s = launched_s
        """Host time to launch its kernels."""
        self.computes = any(not isinstance(op, Collective) for op in self._ops)
        """Whether it has any computation."""
        sent: dict[Account, float] = {}
        for each in self._collectives():
            sent[account(each)] = sent.get(account(each), 0.0) + each.nbytes
        self.sent = list(sent.items())
        """Bytes that its collectives send, by account."""

    def _collectives(self) -> Iterator[Collective]:
        for op in self._ops:
            if not isinstance(op, Compute):
                yield op if isinstance(op, Collective) else op.collective

    def times(self, launched_s: float) -> tuple[PassTimes, float]:
        """Its times by activity, and its duration.

        Args:
            launched_s: End of all earlier launches, relative to the start of the stretch.
        """
        if launched_s <= self._slack_s:
            return self._times, self._seconds
        if launched_s == 0.0:  # at the beginning of a pass
            return self._launches, self._launching_s
        found = PassTimes(launched_s=launched_s)
        for op in self._ops:
            self._add(found, op)
        return found, found.seconds


def stretches(
    ops: Iterable[PassOperation],
    known: Callable[[PassOperation], bool],
    add: Add,
    account: Callable[[Collective], Account],
) -> Iterator[Stretch | PassOperation]:
    """Divide the operations of a pass.

    Args:
        ops: The operations, in order.
        known: True if the time of an operation is known.
        add: Counts an operation with known time.
        account: Where a collective is counted in the communication graph.

    Yields:
        Stretches, and the operations between them.
    """
    together: list[PassOperation] = []
    for op in ops:
        if known(op):
            together.append(op)
            continue
        if together:
            yield Stretch(together, add, account)
            together = []
        yield op
    if together:
        yield Stretch(together, add, account)
