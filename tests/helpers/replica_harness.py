"""Disaggregated and scaled replicas on toy GPUs: the harness of serving, with several kinds of replicas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from frameworks.chunked_prefill import ChunkedPrefill
from frameworks.disaggregated_decode import DisaggregatedDecode
from frameworks.least_kv import LeastKV
from frameworks.round_robin import RoundRobin
from simsys.collectives.choose import cheapest
from simsys.executors import Links, combination
from simsys.executors.execution_model import ExecutionModel
from simsys.framework import Router, Scheduler
from simsys.model.work import Precision
from simsys.parallel.layout import Layout
from simsys.parallel.passes import forward_pass
from simsys.parallel.serving_memory import kv_bytes_per_token
from simsys.platform.contention import NETWORKS
from simsys.platform.platform import Platform
from simsys.platform.topology import Topology, full_mesh
from simsys.probes import Probe, Probes
from simsys.serving.autoscaler import Autoscaler, ScalingRule
from simsys.serving.engine import Engine
from simsys.serving.handover import Handover
from simsys.serving.requests import RequestTable
from simsys.serving.source import Source
from simsys.testing import EngineHarness
from simsys.testing.toys import TOY_LINK_BYTES_PER_S, TOY_LINK_LATENCY_S, toy_device, toy_model
from tests.helpers.reference_serving import Limits
from tests.helpers.serving_harness import HOST, PLAN, SLOW_HOST, RecordingTeam, Served, StepsTold, parts

TOKEN_BYTES = kv_bytes_per_token(PLAN, Precision())


@dataclass
class Moves(Probe):
    """What is told of transfers and of scaling."""

    transfers: dict[int, tuple[float, float, float]] = field(default_factory=dict)
    changes: list[tuple[int, int, float]] = field(default_factory=list)

    def kv_transferred(self, request: int, started_s: float, ended_s: float, nbytes: float) -> None:
        assert request not in self.transfers
        self.transfers[request] = started_s, ended_s, nbytes

    def scaled(self, active: int, paid: int, now_s: float) -> None:
        self.changes.append((active, paid, now_s))


class Toy:
    """Replicas of `tensor` toy GPUs each, at a level of detail; ``stepping``, ``occupied`` and both are medium.

    With `overlapped`, hosts are slow and work beside steps.
    """

    def __init__(
        self,
        requests: RequestTable,
        limits: Limits,
        replicas: int,
        *,
        level: str = "medium",
        tensor: int = 1,
        topology: Topology | None = None,
        contention: str = "fifo",
        probes: Sequence[Probe] = (),
        overlapped: bool = False,
    ) -> None:
        self.host = SLOW_HOST if overlapped else HOST
        self.requests, self.limits, self.replicas = requests, limits, replicas
        self.served, self.moves = Served(), Moves()
        self.layout = Layout(tensor=tensor, data=replicas)
        gpus = replicas * tensor
        links = topology or full_mesh(gpus, TOY_LINK_BYTES_PER_S, TOY_LINK_LATENCY_S)
        self.platform = Platform([toy_device()] * gpus, links, network=NETWORKS[contention, "cut_through"])
        model = ExecutionModel(
            cheapest, Precision(), per_layer_s=1e-6, stepping="stepping" in level, async_scheduling=overlapped
        )
        links = Links.LOADS if "occupied" in level else Links.IDLE
        kind = combination("high" if level == "high" else "medium", links)
        roles = [self.layout.group(replica * tensor, "tensor").ranks for replica in range(replicas)]
        observers = [self.served, StepsTold(self.served), self.moves, *probes]
        self.executor = kind(self.platform, model, roles, Probes(observers))
        self.harness = EngineHarness(self.executor, requests)
        self.env = self.platform.env

    def engine(self, number: int, policy: type[Scheduler]) -> Engine:
        tensor = self.layout.tensor
        plan = PLAN if tensor == 1 else forward_pass(toy_model(), tensor)
        group = self.layout.group(number * tensor, "tensor")
        team = RecordingTeam(self.served, group, plan, self.executor)
        made = self.harness.engine(team, parts(self.limits, policy, host=self.host), watch=team.watch)
        self.served.kvs.append(made.kv)
        return made

    def run(self) -> Toy:
        self.env.run()
        self.executor.check_finished()
        self.served.scheduled = self.env.events_scheduled
        return self


def disaggregated(
    requests: RequestTable,
    limits: Limits,
    *,
    prefill: int = 1,
    decode: int = 1,
    policy: type[Scheduler] = ChunkedPrefill,
    decode_policy: type[Scheduler] = DisaggregatedDecode,
    router: type[Router] = RoundRobin,
    decode_router: type[Router] = LeastKV,
    token_bytes: float = TOKEN_BYTES,
    **given: Any,
) -> Toy:
    """Serve with some replicas for prompts and others for tokens."""
    toy = Toy(requests, limits, prefill + decode, **given)
    sources = [toy.engine(number, policy) for number in range(prefill)]
    targets = [toy.engine(prefill + number, decode_policy) for number in range(decode)]
    env, probes = toy.env, toy.executor.probes
    Handover(sources, targets, decode_router(targets, 1), env, probes, [token_bytes])
    Source(env, requests, router(sources, 0), probes, elsewhere=targets)
    return toy.run()


def replicated(
    requests: RequestTable,
    limits: Limits,
    *,
    replicas: int = 2,
    policy: type[Scheduler] = ChunkedPrefill,
    router: type[Router] = RoundRobin,
    **given: Any,
) -> Toy:
    """Serve with equal replicas."""
    toy = Toy(requests, limits, replicas, **given)
    engines = [toy.engine(number, policy) for number in range(replicas)]
    Source(toy.env, requests, router(engines, 0), toy.executor.probes)
    return toy.run()


def scaled(
    requests: RequestTable,
    limits: Limits,
    rule: ScalingRule,
    *,
    replicas: int,
    router: type[Router] = RoundRobin,
    policy: type[Scheduler] = ChunkedPrefill,
    **given: Any,
) -> Toy:
    """Serve with replicas that come and go."""
    toy = Toy(requests, limits, replicas, **given)
    engines = [toy.engine(number, policy) for number in range(replicas)]
    env, probes = toy.env, toy.executor.probes
    scaler = Autoscaler(env, engines, replicas, rule, partial(_make, router), probes)
    source = Source(env, requests, scaler, probes)
    source.ended.callbacks.append(lambda _: scaler.stop())
    return toy.run()


def _make(router: type[Router], seen: Sequence[Engine]) -> Router:
    return router(seen, 0)
