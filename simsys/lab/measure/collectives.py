"""Times of collectives between the ranks of this machine, and what they take from a computation beside them."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from simsys.lab.clock import Clock
from simsys.lab.measure.timing import of_exchange, timed
from simsys.lab.scenario import cores

SIZES = tuple(1 << exponent for exponent in range(12, 27, 2))
"""Full buffers in bytes, 4 KiB to 64 MiB."""
REPEATS = {True: 10, False: 32}
"""Samples of large and of small collectives."""
BESIDE_BYTES = 1 << 23
WARM_UP = 3


class Exchanges:
    """Measures collectives of all ranks.

    Args:
        device: The device of this rank.
        threads: Threads of this rank.
    """

    def __init__(self, device: torch.device, threads: int) -> None:
        self.device, self.threads, self.ranks = device, threads, dist.get_world_size()

    def all(self) -> dict[str, Any]:
        """Everything, as data for JSON."""
        kinds = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv")
        return {
            "ranks": self.ranks,
            "collectives": {kind: [self.collective(kind, nbytes) for nbytes in SIZES] for kind in kinds},
            "triad": self.triad(),
            "share": self.share(),
        }

    def collective(self, kind: str, nbytes: int) -> dict[str, Any]:
        """One kind at one size of the full buffer."""
        call = self._call(kind, nbytes)
        for _ in range(WARM_UP):
            call()
        taken = []
        for _ in range(REPEATS[nbytes > 1 << 21]):
            self._together()
            clock = Clock()
            call()
            self._finish()
            taken.append(clock.taken())
        return {"nbytes": nbytes, **of_exchange(taken, 1).as_dict()}

    def triad(self) -> dict[str, Any]:
        """The sum of two buffers into a third on all ranks at once, 3 · 64 MiB each."""
        x = torch.randn(1 << 24, device=self.device)
        y, out = torch.randn_like(x), torch.empty_like(x)
        self._together()
        return timed(lambda: torch.add(x, y, out=out), threads=self.threads, budget_s=0.5).as_dict()

    def share(self) -> float:
        """Delay of a computation beside an all-reduce, over the duration of the all-reduce alone.

        Where the ranks use all processor cores, the delay is the processor time of the all-reduce, which other
        programs do not disturb.
        """
        buffer = torch.randn(BESIDE_BYTES // 4, device=self.device)
        x = torch.randn(768, 768, device=self.device)

        def compute() -> None:
            for _ in range(8):
                torch.mm(x, x)

        def beside() -> None:
            work = dist.all_reduce(buffer, async_op=True)
            compute()
            work.wait()

        def exchange() -> None:
            dist.all_reduce(buffer)

        times, cpu_s = {}, {}
        for name, call in (("compute", compute), ("exchange", exchange), ("beside", beside)):
            taken = []
            for _ in range(24):
                self._together()
                clock = Clock()
                call()
                self._finish()
                taken.append(clock.taken())
            times[name] = of_exchange(taken, 1).seconds
            cpu_s[name] = median([each.cpu_s for each in taken])
        delay_s = times["beside"] - times["compute"]
        if self.device.type == "cpu" and cores() <= self.ranks * self.threads:
            delay_s = (cpu_s["beside"] - cpu_s["compute"]) / self.threads
        return min(1.0, max(0.0, delay_s / times["exchange"]))

    def _call(self, kind: str, nbytes: int) -> Callable[[], object]:
        """A call of a collective; all-gather and reduce-scatter write into new memory, as FSDP has them."""
        whole = torch.ones(nbytes // 4, device=self.device)
        part = torch.ones(nbytes // 4 // self.ranks, device=self.device)
        other = torch.empty_like(whole)
        calls: dict[str, Callable[[], object]] = {
            "all_reduce": lambda: dist.all_reduce(whole),
            "all_gather": lambda: dist.all_gather_into_tensor(torch.empty_like(whole), part),
            "reduce_scatter": lambda: dist.reduce_scatter_tensor(torch.empty_like(part), whole),
            "all_to_all": lambda: dist.all_to_all_single(other, whole),
            "broadcast": lambda: dist.broadcast(whole, 0),
            "send_recv": lambda: self._around(whole, other),
        }
        return calls[kind]

    def _around(self, whole: Tensor, other: Tensor) -> None:
        rank = dist.get_rank()
        sent = dist.isend(whole, (rank + 1) % self.ranks)
        dist.recv(other, (rank - 1) % self.ranks)
        if sent is not None:
            sent.wait()

    def _together(self) -> None:
        self._finish()
        dist.barrier()

    def _finish(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()
