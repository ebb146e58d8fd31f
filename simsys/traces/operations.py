"""Recorded operations of training: columns, and where each operation is shown."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from simsys.collectives import busbw_bytes_per_s
from simsys.ops import Collective, Compute, HostChannel, HostWork, Operation, Recv, Send
from simsys.sums import ordered_sum
from simsys.traces import kineto_names as kineto

if TYPE_CHECKING:
    import numpy as np

COMPUTE_STREAM = 7
"""Number of the lane of computation, as of PyTorch's first stream."""
_COPIES = {HostChannel.TO_HOST: "Memcpy DtoH", HostChannel.FROM_HOST: "Memcpy HtoD"}


@dataclass(frozen=True, slots=True)
class Shown:
    """An operation as one rank's lane shows it.

    Args:
        rank: The rank.
        lane: Name of the lane.
        category: Category of the event.
        name: Name of the event.
        args: Its arguments.
        kind: What it is (`kineto_names.kind_of`); empty for work of a host, which no GPU does.
        bus_bytes: Bytes that the busiest link carries, for the counter of links.
    """

    rank: int
    lane: str
    category: str
    name: str
    args: Mapping[str, Any]
    kind: str
    bus_bytes: float = 0.0


class Record:
    """Operations with their times, 24 bytes for each report, and each operation once.

    Args:
        most: The largest number of reports that are kept.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.ops: list[Operation] = []
        self._places: dict[int, int] = {}  # by identity of an operation, which `ops` keeps alive
        self._columns = array("d"), array("d"), array("q")
        self.cut_s: float | None = None
        """The earliest start of a report that was not kept."""

    def add(self, op: Operation, started_s: float, ended_s: float) -> None:
        """Record that an operation runs."""
        starts, ends, which = self._columns
        if len(which) >= self.most:
            self.cut_s = started_s if self.cut_s is None else min(self.cut_s, started_s)
            return
        place = self._places.get(id(op))
        if place is None:
            place = self._places[id(op)] = len(self.ops)
            self.ops.append(op)
        starts.append(started_s)
        ends.append(ended_s)
        which.append(place)

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Starts and ends in seconds, and places in `ops`."""
        import numpy as np

        starts, ends, which = (np.array(column) for column in self._columns)
        return starts, ends, which


def shown(op: Operation, ranks: Collection[int]) -> Iterator[Shown]:
    """An operation in the lanes of all these ranks that take part in it."""
    if isinstance(op, Collective):
        lane = f"{op.group.axis} group (ranks {kineto.ranks_text(op.group.ranks)})"
        args = {"purpose": op.name, **kineto.collective_args(op.kind, op.group, op.nbytes)}
        bus_bytes = busbw_bytes_per_s(op.kind, op.group.size, op.nbytes, 1.0)
        name = kineto.kernel_name(op.kind)
        for rank in op.group.ranks:
            if rank in ranks:
                yield Shown(rank, lane, "kernel", name, args, op.kind.value, bus_bytes)
        return
    if op.rank not in ranks:
        return
    at = partial(Shown, op.rank)
    if isinstance(op, Compute):
        yield at("computation", "kernel", op.name, _work(op), kineto.COMPUTE)
    elif isinstance(op, Send):
        args = {"purpose": op.name, **kineto.message_args("send", op.rank, op.dst, op.nbytes)}
        yield at("messages sent", "kernel", kineto.MESSAGE_KERNEL, args, kineto.MESSAGE, op.nbytes)
    elif isinstance(op, Recv):
        args = {"purpose": op.name, **kineto.message_args("recv", op.src, op.rank)}
        yield at("messages awaited", "kernel", kineto.MESSAGE_KERNEL, args, kineto.MESSAGE)
    elif isinstance(op, HostWork):
        args = {"purpose": op.name, "bytes": round(op.nbytes)}
        copy = _COPIES.get(op.channel)
        if copy is None:
            yield at("host", "cpu_op", op.name, args, "")
        else:
            yield at(f"copies {op.channel.replace('_', ' ')}", "gpu_memcpy", copy, args, kineto.COPY)


def lanes_of(places: Sequence[Shown]) -> dict[tuple[int, str], int]:
    """A number for each lane of each rank, computation first."""
    found: dict[tuple[int, str], int] = {}
    used: dict[int, int] = {}
    for each in places:
        key = each.rank, each.lane
        if key not in found:
            if each.kind == kineto.COMPUTE:
                found[key] = COMPUTE_STREAM
            else:
                found[key] = used[each.rank] = used.get(each.rank, COMPUTE_STREAM) + 1
    return found


def _work(op: Compute) -> dict[str, Any]:
    """FLOP and bytes of a computation; none of a sum of several."""
    kernels = op.work.kernels
    if not kernels:
        return {}
    flop, nbytes = (ordered_sum(each) for each in zip(*((one.flop, one.nbytes) for one in kernels), strict=True))
    return {"kernels": len(kernels), "FLOP": round(flop), "bytes": round(nbytes)}
