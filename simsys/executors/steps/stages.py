"""The stages of a pipeline: servers of a step in order, their costs, and traffic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from simsys.costs.pass_cost import PassCost
from simsys.costs.stage_costs import StageCosts, woven
from simsys.executors.steps.channels import Channel, Channels
from simsys.model.batch import Batch
from simsys.ops import Forward, Pipelined, Send
from simsys.platform.device import Device


class Hops(NamedTuple):
    """Messages between stages in a step.

    Args:
        seconds: Duration after each stage except the last.
        sends: Bytes from one rank of each stage.
    """

    seconds: list[float]
    sends: list[Send]


class Counts(Protocol):
    """Counts bytes in the communication graph; `simsys.executors.tally.Tally` does."""

    def sent(self, op: Send, times: int = 1) -> None:
        """Count messages."""

    def passed(self, op: Forward, batch: Batch, times: int = 1) -> None:
        """Count the collectives of forward passes."""


class Stages:
    """The stages of a pipeline on constant hardware.

    Args:
        passes: One pass through each stage.
        parts: Number of parts into which hidden states are divided.
        devices: The device of the first rank of each stage.
        channels: The channels of all pipelines.
        costs: The costs of passes for each stage.
        hops: Returns the transfers of a batch between the stages.
        tally: Counts the traffic.
    """

    def __init__(
        self,
        passes: Sequence[Forward],
        parts: int,
        devices: Sequence[Device],
        channels: Channels,
        costs: Sequence[PassCost],
        hops: Callable[[Pipelined], Hops],
        tally: Counts,
    ) -> None:
        self.passes = tuple(passes)
        """One through each stage."""
        between = [channels.between(here.team, there.team) for here, there in pairwise(passes)]
        self.servers: list[Device | Channel] = woven(devices, between)
        """Servers of a step in order: a stage, the channel to the next one, and so on."""
        self.costs = StageCosts(costs, lambda tokens: self._hops(tokens).seconds)
        """Costs of steps."""
        self._parts, self._hops_of, self._tally = parts, hops, tally
        self._known_hops: dict[float, Hops] = {}

    def _hops(self, tokens: float) -> Hops:
        """Bytes between stages in a step by its tokens."""
        found = self._known_hops.get(tokens)
        if found is None:
            batch = Batch(tokens)
            passes = tuple(Forward(each.team, each.plan, batch, 0.0, each.name) for each in self.passes)
            found = self._known_hops[tokens] = self._hops_of(Pipelined(passes, self._parts))
        return found

    def count(self, batch: Batch, steps: int) -> None:
        """Count the traffic of a number of steps of a batch."""
        for op in self.passes:
            if op.team.size > 1:
                self._tally.passed(op, batch, steps)
        for send in self._hops(batch.tokens).sends:
            self._tally.sent(send, steps)
