"""How far ranks have come: the simulated clock, and the computation that each has issued ahead of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simpy.events import Event

from simsys.executors.own_work import own_work
from simsys.platform.environment import executors_clock
from simsys.platform.events import At
from simsys.platform.partition import Hardware
from simsys.platform.server import CalendarServer
from simsys.probes import Probes


class Clocks:
    """The time at which each rank can continue, and the work done by then.

    Args:
        platform: The hardware.
        probes: Observers.
        queues: True if all computations queue for GPUs and all transfers for links (shared platform).
    """

    def __init__(self, platform: Hardware, probes: Probes, *, queues: bool) -> None:
        self.platform, self.env, self.probes = platform, executors_clock(platform.env), probes
        sharing, ranks = platform.network.sharing, len(platform.devices)
        self.own = own_work(platform.env, sharing, ranks, stepwise=queues)
        """The streams that keep the operations of ranks in order, if user processes may request GPUs."""
        self.fronts: Sequence[CalendarServer] = platform.devices if self.own is None else self.own.fronts
        """By rank, when its own computations end, as known so far."""

    def now(self, rank: int) -> float:
        """The time at which `rank` would start its next operation: the end of its last computation.

        So a collective starts after a computation that was issued before it, waited for or not, as on a CUDA stream.
        """
        now_s, free_at_s = self.env._now, self.fronts[rank].free_at_s
        return free_at_s if free_at_s > now_s else now_s  # `max` written out: this runs for every operation

    def synchronize(self, rank: int) -> None:
        """Let the host of `rank` wait for its GPU; later operations are launched from then on."""

        def wait() -> None:
            self.platform.devices[rank].launched_s = self.now(rank)

        self.in_order(rank, wait)

    def in_order(self, rank: int, action: Callable[[], None]) -> None:
        """Call a function as soon as the end of all computations of `rank` issued so far is known."""
        if self.own is None:
            action()
        else:
            self.own.do_after(rank, action)

    def align(self, ranks: Sequence[int]) -> float:
        """Synchronise all `ranks` to the last of them; return that time."""
        now_s = max(self.now(rank) for rank in ranks)
        for rank in ranks:
            self.fronts[rank].free_at_s = now_s
        return now_s

    def pause(self, ranks: Sequence[int], until_s: float) -> Event:
        """Let all `ranks` do nothing until a time that they have not reached yet."""
        for rank in ranks:
            self.fronts[rank].free_at_s = until_s
        return At(self.env, until_s)

    def busy_seconds(self, ranks: Sequence[int]) -> list[float]:
        """Computation time of each rank's GPU so far."""
        return [self.platform.devices[rank].busy_s for rank in ranks]

    def sent_bytes(self) -> list[float]:
        """Bytes sent so far, by account of the communication graph."""
        return self.platform.network.traffic.counted()

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
        """Report `count` further iterations to the probes; the ranks continue after them, ahead of the clock.

        Args:
            ranks: Representative ranks.
            count: Number of iterations.
            like: Number of the equal iteration.
            iteration_s: Duration of each.
            busy_s: Computation time of each rank's GPU in one.
            sent_bytes: Bytes sent in one, by account.

        Returns: The end of the last one.
        """
        start_s = max(self.now(rank) for rank in ranks)
        end_s = start_s + count * iteration_s
        self.count_again(ranks, count, busy_s=busy_s, sent_bytes=sent_bytes)
        for rank in ranks:
            self.platform.devices[rank].free_at_s = end_s
            for hook in self.probes.repeated:
                hook(rank, count, start_s, iteration_s, like)
        return end_s

    def count_again(
        self, ranks: Sequence[int], count: int, *, busy_s: Sequence[float], sent_bytes: Sequence[float]
    ) -> None:
        """Count `count` times as much computation and traffic again.

        Args:
            ranks: Representative ranks.
            count: How often.
            busy_s: Computation time of each rank's GPU.
            sent_bytes: Bytes sent, as `sent_bytes` has them.
        """
        self.platform.network.traffic.repeat(sent_bytes, count)
        for rank, each_s in zip(ranks, busy_s, strict=True):
            self.platform.devices[rank].busy_s += count * each_s

    def mark(self, rank: int, name: str) -> None:
        """Report the name of a phase to the probes."""

        def tell() -> None:
            for hook in self.probes.mark:
                hook(rank, name, self.now(rank))

        self.in_order(rank, tell)
