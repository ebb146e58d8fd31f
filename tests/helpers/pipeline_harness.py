"""Pipelines of toy GPUs that serve: engines that share stages, every step and pass they are told of written down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from frameworks.chunked_prefill import ChunkedPrefill
from frameworks.round_robin import RoundRobin
from simsys.collectives.choose import cheapest
from simsys.executors import LEVELS, Combination
from simsys.executors.execution_model import ExecutionModel
from simsys.executors.steps.run_passes import MultiStepRuns
from simsys.executors.steps.serving_passes import ServingPasses
from simsys.framework import Router, Scheduler
from simsys.model.work import Precision
from simsys.ops import Forward, Operation
from simsys.parallel.layout import Layout
from simsys.parallel.replica import replica_stages
from simsys.probes import Probe, Probes
from simsys.serving.deadline import Deadline
from simsys.serving.requests import RequestTable
from simsys.teams import PipelineTeam
from simsys.testing import EngineHarness, toy_model, toy_platform
from tests.helpers.reference_serving import Limits
from tests.helpers.serving_harness import Served, parts


class OneByOne(MultiStepRuns):
    """Medium detail where every step is an operation of its own."""

    pipeline = ServingPasses.pipeline


EXECUTORS: dict[str, Combination] = {
    **LEVELS,
    "stepping": LEVELS["medium"],
    "one by one": replace(LEVELS["medium"], passes=OneByOne),
}


@dataclass
class Told(Probe):
    """Steps by engine, and passes."""

    runs: dict[int, list[float]] = field(default_factory=dict)

    def steps(self, rank: int, runs: Sequence[float]) -> None:
        self.runs.setdefault(rank, []).extend(runs)


@dataclass
class PassesTold(Probe):
    """All passes through stages."""

    passes: list[tuple[Any, ...]] = field(default_factory=list)

    def operation(self, op: Operation, started_s: float, ended_s: float) -> None:
        if isinstance(op, Forward):
            self.passes.append((started_s, ended_s, op.rank, op.batch, op.host_s))


@dataclass
class Piped:
    """What a run has shown."""

    served: Served
    runs: dict[int, list[float]]
    passes: list[tuple[Any, ...]]
    busy_s: list[float]
    sent_bytes: dict[tuple[int, int], float]
    generated: list[int]
    events: int

    def times(self) -> Any:
        """All that is to be equal to the last bit."""
        peaks = [(kv.peak_blocks, kv.free_blocks, kv.taken_blocks) for kv in self.served.kvs]
        served = self.served
        return served.history(), served.arrived, served.reasons, served.lookups, peaks, self.runs, self.generated


def serve(
    requests: RequestTable,
    limits: Limits,
    *,
    stages: int = 2,
    tensor: int = 1,
    replicas: int = 1,
    level: str = "medium",
    policy: type[Scheduler] = ChunkedPrefill,
    router: type[Router] = RoundRobin,
    seed: int = 0,
    stage_layers: Sequence[int] | None = None,
    prefix_caching: bool = False,
    swap_blocks: int | None = None,
    ends_s: float | None = None,
    passes: bool = False,
) -> Piped:
    """Serve on replicas of so many stages of so many toy GPUs each.

    Args:
        requests: In order of arrival.
        limits: Settings of the engines.
        stages: Of each replica.
        tensor: GPUs of each stage.
        replicas: Number of replicas.
        level: ``stepping`` is medium with an event for every step, ``one by one`` with an operation for every step.
        policy: Their scheduler.
        router: Chooses the engine of every request.
        seed: Of random choices.
        stage_layers: Layers of each stage, if they differ.
        prefix_caching: Whether requests share blocks.
        swap_blocks: Blocks of the host of each engine for preempted requests; None to compute these again.
        ends_s: When the run ends, if before the last request.
        passes: Whether to keep every pass.
    """
    layout = Layout(tensor=tensor, pipeline=stages, data=replicas, order=("tensor", "context", "pipeline", "data"))
    platform, served, told, heard = toy_platform(layout.world_size), Served(), Told(), PassesTold()
    model = ExecutionModel(cheapest, Precision(), per_layer_s=1e-6, stepping=level == "stepping")
    groups = [
        [
            layout.group(layout.rank_of({"tensor": 0, "context": 0, "pipeline": stage, "data": replica}), "tensor")
            for stage in range(stages)
        ]
        for replica in range(replicas)
    ]
    roles = [group.ranks for each in groups for group in each]
    probes = Probes([served, told, *([heard] if passes else [])])
    executor = EXECUTORS[level](platform, model, roles, probes)
    plans = replica_stages(
        toy_model(stages if stage_layers is None else sum(stage_layers)),
        tensor=tensor,
        stages=stages,
        stage_layers=stage_layers,
    )
    teams = [PipelineTeam(each, plans, executor) for each in groups]
    harness, env = EngineHarness(executor, requests), platform.env
    each = parts(limits, policy, prefix_caching=prefix_caching, swap_blocks=swap_blocks)
    for stage in range(stages):
        for team in teams:
            harness.engine(team, each, rank=team.groups[stage].ranks[0])
    engines = harness.engines
    served.kvs = [engine.kv for engine in engines]
    source = harness.start(router(engines, seed))
    if ends_s is not None:
        Deadline(env, ends_s, source, engines, executor.probes, executor.stop)
    env.run()
    executor.check_finished()
    busy_s, sent = executor.busy_seconds(executor.ranks()), platform.network.traffic.columns()
    sent_bytes = dict(zip(zip(sent["src"], sent["dst"], strict=True), sent["nbytes"], strict=True))
    generated = list(harness.sequences.generated_tokens)
    return Piped(served, told.runs, sorted(heard.passes), busy_s, sent_bytes, generated, env.events_scheduled)
