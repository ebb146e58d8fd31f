"""What steps cost in the stages of a pipeline, and from each stage to the next."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import chain, pairwise
from math import inf
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from simsys.executors.steps.passes import NAME
from simsys.executors.steps.step_times import StepTimes
from simsys.model.batch import Batch
from simsys.ops import Forward, Pipelined, Send
from simsys.parallel.layout import Group
from simsys.parallel.passes import ForwardPass
from simsys.platform.device import Device

if TYPE_CHECKING:
    from simsys.executors.medium import MediumDetail

StageLine = tuple[float, float]
"""What a step takes in a stage or in the channel behind it: a constant, and by a number that grows evenly."""
Lines = tuple[tuple[StageLine, ...], float]
"""The line of each stage and channel, and from which number on they are others."""


class DecodeLines(NamedTuple):
    """Durations of steps without prompts by the context of their sequences, in pieces that are linear in all stages.

    Args:
        begins: The least context of each piece; that of the first one is 0.
        lines: By piece, the line of each stage and channel.
        exchange_s: What of a step does not keep a stage or channel busy, that is communication within stages.
    """

    begins: list[int]
    lines: list[tuple[StageLine, ...]]
    exchange_s: list[float]

    def at(self, context: int) -> Lines:
        """The piece of a context."""
        place = bisect_right(self.begins, context)
        return self.lines[place - 1], self.begins[place] if place < len(self.begins) else inf


class Hops(NamedTuple):
    """What the stages hand on in a step.

    Args:
        seconds: How long that takes after each stage but the last.
        sends: What one rank of each stage sends.
    """

    seconds: list[float]
    sends: list[Send]


class Channel:
    """From one stage to the next: messages go over it one after another, as NCCL sends what one stream holds."""

    __slots__ = ("busy_s", "free_at_s")

    def __init__(self) -> None:
        self.free_at_s = 0.0
        """When the last message has arrived."""
        self.busy_s = 0.0
        """For how long messages have been under way in all."""

    def arrival_s(self, ready_s: float, seconds: float) -> float:
        """When a message arrives that is ready at a time and takes so long."""
        self.free_at_s = max(ready_s, self.free_at_s) + seconds
        self.busy_s += seconds
        return self.free_at_s


class Channels:
    """Those of all serving pipelines."""

    def __init__(self) -> None:
        self._known: dict[tuple[Group, Group], Channel] = {}

    def between(self, source: Group, target: Group) -> Channel:
        """The one from a stage to the next."""
        return self._known.setdefault((source, target), Channel())

    def most_busy_s(self) -> float:
        """For how long messages have been under way in the busiest one."""
        return max((channel.busy_s for channel in self._known.values()), default=0.0)


T = TypeVar("T")


def woven(stages: Sequence[T], channels: Sequence[T]) -> list[T]:
    """Stages with the channels between them, in the order in which a step comes to them."""
    return [*chain.from_iterable(zip(stages, channels, strict=False)), stages[-1]]


class Stages:
    """The stages of a pipeline on hardware that stays as it is.

    Args:
        executor: Knows what passes and transfers cost.
        stages: The ranks and one rank's share of each stage.
        parts: Into how many parts hidden states are divided.
    """

    def __init__(self, executor: MediumDetail, stages: Sequence[tuple[Group, ForwardPass]], parts: int) -> None:
        self._executor, self._parts = executor, parts
        self.passes = tuple(Forward(group, plan, Batch(), 0.0, NAME) for group, plan in stages)
        """One through each stage."""
        devices = [executor.platform.devices[op.rank] for op in self.passes]
        channels = [executor.channels.between(here.team, there.team) for here, there in pairwise(self.passes)]
        self.servers: list[Device | Channel] = woven(devices, channels)
        """What a step comes to, one after another: a stage, the channel to the next one, and so on."""
        self._costs = [(executor.pass_cost(op), executor.communicator(op.team).seconds) for op in self.passes]
        self._decoding: dict[int, DecodeLines] = {}
        self._hops: dict[float, Hops] = {}

    def decoding(self, sequences: int) -> DecodeLines:
        """Durations of steps in which so many sequences decode, and nothing else."""
        found = self._decoding.get(sequences)
        if found is None:
            found = self._decoding[sequences] = self._lines_of(sequences)
        return found

    def _lines_of(self, sequences: int) -> DecodeLines:
        """The pieces of all stages, divided where any of them is."""
        times = list[StepTimes]()
        for cost, collective_s in self._costs:
            costs = cost.step_costs(sequences, sequences, False, collective_s, alone=sequences == 1)
            times.append(StepTimes(costs.compute_s + costs.exchange_s, 0.0, costs.exchange_s))
            for kernel in costs.decode:
                times[-1].add(kernel)
        begins = sorted({0, *(kink for each in times for kink, _, _ in each.kinks)})
        hops_s = self.hops(sequences).seconds
        lines = [
            tuple(woven([each.line(begin) for each in times], [(hop_s, 0.0) for hop_s in hops_s])) for begin in begins
        ]
        return DecodeLines(begins, lines, woven([each.idle_s for each in times], [0.0] * len(hops_s)))

    def seconds(self, batch: Batch) -> list[tuple[float, float]]:
        """What a step takes in each stage: computation, and communication."""
        if batch.verified_pairs:
            return [cost.seconds(batch, collective_s) for cost, collective_s in self._costs]
        return [cost.step_seconds(batch, collective_s) for cost, collective_s in self._costs]

    def hops(self, tokens: float) -> Hops:
        """What stages hand on in a step with so many tokens."""
        found = self._hops.get(tokens)
        if found is None:
            batch, executor, stages = Batch(tokens), self._executor, range(len(self.passes) - 1)
            op = Pipelined(tuple(Forward(each.team, each.plan, batch, 0.0, NAME) for each in self.passes), self._parts)
            seconds = [executor.hand_on_seconds(op, stage) for stage in stages]
            sends = [send for stage in stages if (send := executor.handed_on(op, stage)) is not None]
            found = self._hops[tokens] = Hops(seconds, sends)
        return found

    def count(self, batch: Batch, steps: int) -> None:
        """Count what so many steps of a batch send."""
        tally = self._executor.tally
        for op in self.passes:
            if op.team.size > 1:
                tally.passed(op, batch, steps)
        for send in self.hops(batch.tokens).sends:
            tally.sent(send, steps)
