"""The communication graph where collectives and messages are times and no transfers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from simsys.costs.pass_cost import PassCost
from simsys.executors.communicator import Communicator
from simsys.executors.images import Images
from simsys.model.batch import Batch
from simsys.ops import Collective, Compute, Forward, Pass, Send
from simsys.parallel.layout import Group
from simsys.parallel.passes import ForwardPass
from simsys.platform.traffic import Account, Traffic


class Tally:
    """Counts the bytes that operations send, for all ranks that a simulated one represents.

    Args:
        traffic: The communication graph.
        images: Finds the messages represented by a simulated one.
        communicator: The communicator of a group.
        pass_cost: The cost model of a forward pass.
    """

    def __init__(
        self,
        traffic: Traffic,
        images: Images,
        communicator: Callable[[Group], Communicator],
        pass_cost: Callable[[Forward], PassCost],
    ) -> None:
        self._traffic, self._images = traffic, images
        self._communicator, self._pass_cost = communicator, pass_cost
        self._messages: dict[tuple[int, int], Account] = {}
        self._batches: dict[tuple[Group, ForwardPass], Counter[tuple[float, float]]] = {}

    def sent(self, op: Send, times: int = 1) -> None:
        """Count a number of messages."""
        key = op.rank, op.dst
        account = self._messages.get(key)
        if account is None:
            account = self._messages[key] = self._traffic.account(lambda: self._images_of(op))
        account.nbytes += times * op.nbytes

    def ran(self, passes: Mapping[Pass, int]) -> None:
        """Count the traffic of the passes of a program, each with its number of repetitions."""
        for each, times in passes.items():
            if each.send is not None:
                self.sent(each.send, times)
            for op in each.run:
                if not isinstance(op, Compute):
                    self._exchanged(op if isinstance(op, Collective) else op.collective, times)

    def passed(self, op: Forward, batch: Batch, times: int = 1) -> None:
        """Count the collectives of forward passes like `op` over a batch; they are listed only on demand."""
        key = op.team, op.plan
        batches = self._batches.get(key)
        if batches is None:
            batches = self._batches[key] = Counter()
            self._traffic.account(lambda: self._shares(op)).nbytes = 1.0
        batches[batch.tokens, batch.logits] += times

    def _exchanged(self, op: Collective, times: int) -> None:
        """Each member that runs a process counts its own collectives."""
        communicator = self._communicator(op.group)
        if not communicator.trivial(op.nbytes):
            communicator.count(op.kind, op.nbytes, times / communicator.members)

    def _images_of(self, op: Send) -> Iterator[tuple[int, int, float]]:
        for shift in self._images.shifts((op.rank, op.dst)):
            yield op.rank + shift, op.dst + shift, 1.0

    def _shares(self, op: Forward) -> Iterator[tuple[int, int, float]]:
        """The transfers of all passes like `op`, in bytes."""
        communicator, cost = self._communicator(op.team), self._pass_cost(op)
        for (tokens, logits), times in self._batches[op.team, op.plan].items():
            for kind, nbytes, repeat in cost.exchanges(Batch(tokens=tokens, logits=logits)):
                for src, dst, share in communicator.shares(kind, nbytes):
                    yield src, dst, share * nbytes * repeat * times
