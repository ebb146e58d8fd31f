"""High detail in plain SimPy: a process per kernel and per transfer, a `simpy.Resource` per GPU and per link.

What high detail must answer too, but for rounding, since here the clock is rounded at every event.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import simpy

from simsys.executors import LEVELS, MIXTURES
from simsys.executors.steps.segment_passes import SegmentPasses
from simsys.ops import Forward
from simsys.platform.topology import Topology
from tests.helpers.reference import NaiveCutThrough

NAIVE = "naive"
"""The name of this level of detail, once it is registered."""


class NaiveLinks(NaiveCutThrough):
    """Naive links on an environment that is there already."""

    def __init__(self, env: simpy.Environment, topology: Topology) -> None:
        super().__init__(topology)
        self.env = env
        self.resources = [simpy.Resource(env, capacity=1) for _ in topology.links]


class NaivePasses(SegmentPasses):
    """Passes of serving teams, kernel by kernel and transfer by transfer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._gpus = [simpy.Resource(self.env, capacity=1) for _ in self.platform.devices]
        self._links = NaiveLinks(self.env, self.platform.network.topology)

    def forward(self, op: Forward) -> simpy.Event:
        return self.env.process(self._pass(op))

    def _pass(self, op: Forward) -> Iterator[Any]:
        if op.host_s:
            yield self.env.timeout(op.host_s)
        for repeat, segments in self.pass_cost(op).by_segment(op.batch):
            for segment in segments * repeat:
                kernels = [self.env.process(self._kernel(rank, segment.compute_s)) for rank in op.team.ranks]
                yield self.env.all_of(kernels)
                if segment.nbytes:
                    yield from self._collective(op, segment.kind, segment.nbytes)
        for hook in self.probes.operation:
            hook(op, self.env.now, self.env.now)

    def _kernel(self, rank: int, seconds: float) -> Iterator[Any]:
        with self._gpus[rank].request() as turn:
            yield turn
            yield self.env.timeout(seconds)
        self.platform.devices[rank].busy_s += seconds

    def _collective(self, op: Forward, kind: Any, nbytes: float) -> Iterator[Any]:
        for pairs, each_bytes, repeat, pause_s in self.communicator(op.team).steps_alone(kind, nbytes):
            for _ in range(repeat):
                yield self.env.all_of([self._links._transfer(src, dst, each_bytes) for src, dst in pairs])
                if pause_s:
                    yield self.env.timeout(pause_s)


def register() -> None:
    """Let comparisons name it beside the levels and their mixtures."""
    assert NAIVE not in LEVELS
    MIXTURES[NAIVE] = replace(LEVELS["high"], passes=NaivePasses)
