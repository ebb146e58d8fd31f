"""The shipped scheduler and phases on toy hardware, every step and request event written down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from simpy.events import Event

from frameworks.chunked_prefill import ChunkedPrefill
from frameworks.round_robin import RoundRobin
from simsys.collectives.choose import cheapest
from simsys.executors import LEVELS
from simsys.executors.execution_model import ExecutionModel
from simsys.framework import Router, Scheduler, Team
from simsys.model.batch import Batch
from simsys.model.work import Precision
from simsys.ops import Forward, HostWork, Operation
from simsys.parallel.layout import Layout
from simsys.parallel.passes import forward_pass
from simsys.platform.environment import Environment
from simsys.probes import Probe, Probes
from simsys.serving.cancelled import Cancelled
from simsys.serving.host_costs import HostCosts
from simsys.serving.intake import Intake
from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.requests import RequestTable
from simsys.serving.swap import SwapSpace
from simsys.testing import EngineHarness, EngineParts, WatchedTeam, toy_model, toy_platform
from simsys.testing.engines import TOY_HOST as HOST
from tests.helpers.reference_serving import Limits, Step

SLOW_HOST = HostCosts(per_step_s=7.13e-6, per_sequence_s=1.9e-7)
"""About as long as what the GPUs do, sometimes longer and sometimes not."""
PLAN = forward_pass(toy_model())


@dataclass
class Served(Probe):
    """What a run has shown."""

    kvs: list[PagedKVCache] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)
    passes: list[tuple[Forward, float, float]] = field(default_factory=list)
    told: list[tuple[int, Sequence[float]]] = field(default_factory=list)
    scheduled: int = 0
    events: list[tuple[str, int, float]] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    arrived: dict[int, float] = field(default_factory=dict)
    cancelled: dict[int, Cancelled] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    lookups: list[tuple[int, int, int, float]] = field(default_factory=list)
    copies: list[tuple[HostWork, float, float]] = field(default_factory=list)
    spaces: list[SwapSpace] = field(default_factory=list)
    busy_s: list[float] = field(default_factory=list)

    @property
    def kv(self) -> PagedKVCache:
        """The cache of the only replica."""
        (kv,) = self.kvs
        return kv

    def prefix_lookup(self, request: int, hit_tokens: int, query_tokens: int, now_s: float) -> None:
        self.lookups.append((request, hit_tokens, query_tokens, now_s))

    def steps_told(self) -> Iterator[tuple[float, float, int, float, float]]:
        """Every step as the probes hear of it: beginning, duration, decoding sequences and prompt tokens."""
        for rank, runs in self.told:
            for place in range(0, len(runs), 6):
                started_s, count, decoding, prompt_tokens, first_s, growth_s = runs[place : place + 6]
                for step in range(int(count)):
                    yield rank, started_s, decoding, prompt_tokens, first_s + step * growth_s
                    started_s += first_s + step * growth_s

    def request_arrived(self, request: int, now_s: float) -> None:
        self.arrived[request] = now_s

    def request_admitted(self, request: int, now_s: float) -> None:
        self.events.append(("admitted", request, now_s))

    def request_first_token(self, request: int, now_s: float) -> None:
        self.events.append(("first token", request, now_s))

    def request_finished(self, request: int, now_s: float) -> None:
        self.events.append(("finished", request, now_s))

    def request_preempted(self, request: int, now_s: float) -> None:
        self.events.append(("preempted", request, now_s))

    def request_rejected(self, request: int, reason: str, now_s: float) -> None:
        self.events.append(("rejected", request, now_s))
        self.reasons[request] = reason

    def request_cancelled(self, request: int, cancelled: Cancelled) -> None:
        self.events.append(("cancelled", request, cancelled.time_s))
        self.cancelled[request] = cancelled

    def history(self) -> list[tuple[str, int, float]]:
        """All events in an order that does not depend on that of one moment."""
        return sorted(self.events, key=lambda event: (event[2], event))

    def times(self, event: str) -> dict[int, float]:
        return {request: time_s for name, request, time_s in self.events if name == event}


class StepsTold(Probe):
    """Keeps what probes are told of steps, of every single one, and of copies."""

    def __init__(self, served: Served) -> None:
        self.served = served

    def operation(self, op: Operation, started_s: float, ended_s: float) -> None:
        if isinstance(op, Forward):
            self.served.passes.append((op, started_s, ended_s))
        elif isinstance(op, HostWork):
            self.served.copies.append((op, started_s, ended_s))

    def steps(self, rank: int, runs: Sequence[float]) -> None:
        self.served.told.append((rank, runs))


class RecordingTeam(WatchedTeam):
    """Writes steps down as they end, with the chunks that the scheduler has chosen for them."""

    def __init__(self, served: Served, *args: Any) -> None:
        super().__init__(*args)
        self.served = served
        self.chunks: list[tuple[int, int]] = []
        self.running = 0

    def watch(self, scheduler: Scheduler) -> None:
        """This is its scheduler."""
        self.scheduler, schedule = scheduler, scheduler.schedule

        def watched_schedule() -> Any:
            chunks = schedule()
            self.chunks = [tuple(chunk) for chunk in chunks]
            return chunks

        vars(scheduler)["schedule"] = watched_schedule

    def began(self, batch: Batch) -> None:
        self.running = len(self.scheduler.running)
        if not batch.attention_pairs:
            self.chunks = []

    def ended(self, steps: int) -> None:
        for op, started_s, ended_s in self.served.passes[-steps:]:
            self.served.steps.append(Step(self.chunks, op.batch, started_s, ended_s))
            self.served.running.append(self.running)
        self.served.runs.append(steps)


def parts(limits: Limits, policy: type[Scheduler], **given: Any) -> EngineParts:
    """An engine with these limits, under a policy."""
    known = {name: getattr(limits, name) for name in policy.Options.model_fields if hasattr(limits, name)}
    return EngineParts(
        limits.num_blocks,
        limits.block_size,
        policy,
        policy.Options(**known),
        max_context_tokens=limits.max_context_tokens,
        reserves_prompts=limits.reserves_prompts,
        **given,
    )


def serve(
    requests: RequestTable,
    limits: Limits,
    *,
    policy: type[Scheduler] = ChunkedPrefill,
    level: str = "medium",
    host: HostCosts = HOST,
    probes: tuple[Probe, ...] = (),
    router: type[Router] = RoundRobin,
    replicas: int = 1,
    seed: int = 0,
    details: bool = True,
    prefix_caching: bool = False,
    swap_blocks: int | None = None,
    pauses_s: Sequence[float] = (),
    overlapped: bool = False,
    intake: Callable[[], Intake] | None = None,
    ticks_s: float = 0.0,
    **modules: Any,
) -> Served:
    """Serve `requests` on toy GPUs, one for each replica.

    Args:
        requests: In order of arrival.
        limits: Settings of the engines.
        policy: Their scheduler.
        level: The level of detail; ``stepping`` is medium with an event for every step.
        host: Their host costs.
        probes: Further observers.
        router: Chooses the replica of every request.
        replicas: Number of replicas.
        seed: Of random choices.
        details: Whether to keep every step.
        prefix_caching: Whether requests share blocks.
        swap_blocks: Blocks of each host for preempted requests; None to compute these again.
        pauses_s: Times at which the simulation is interrupted, to go on at once.
        overlapped: Whether hosts work beside a step, and not before it.
        intake: Makes what requests pass before each scheduler; None for nothing.
        ticks_s: How often a process that has nothing to do with serving wakes; 0 for never.
        modules: Further parts of the engines.
    """
    platform = toy_platform(replicas)
    served = Served()
    stepping = level == "stepping"
    model = ExecutionModel(cheapest, Precision(), per_layer_s=1e-6, stepping=stepping, async_scheduling=overlapped)
    roles = [(rank,) for rank in range(replicas)]
    executor = LEVELS["medium" if stepping else level](
        platform, model, roles, Probes([served, *([StepsTold(served)] if details else []), *probes])
    )
    harness, layout = EngineHarness(executor, requests), Layout(data=replicas)
    each = parts(limits, policy, host=host, prefix_caching=prefix_caching, swap_blocks=swap_blocks, **modules)
    for rank in range(replicas):
        group, taken = layout.group(rank, "tensor"), None if intake is None else intake()
        if details:
            team = RecordingTeam(served, group, PLAN, executor)
            harness.engine(team, each, watch=team.watch, intake=taken)
        else:
            harness.engine(Team(group, PLAN, executor), each, intake=taken)
    engines = harness.engines
    served.kvs = [engine.kv for engine in engines]
    served.spaces = [engine.scheduler.swap for engine in engines if engine.scheduler.swap is not None]
    source = harness.start(router(engines, seed))
    if ticks_s:
        platform.env.process(ticking(platform.env, ticks_s, source.ended))
    for time_s in pauses_s:
        platform.env.run(until=time_s)
    platform.env.run()
    executor.check_finished()
    served.scheduled = platform.env.events_scheduled
    served.busy_s = [device.busy_s for device in platform.devices]
    return served


def ticking(env: Environment, each_s: float, until: Event) -> Iterator[Event]:
    """A process that wakes again and again, until something has happened."""
    while not until.triggered:
        yield env.timeout(each_s)


class StepSeconds:
    """Duration of a step on the harness' hardware, for the reference engine."""

    def __init__(self, host: HostCosts = HOST, *, overlapped: bool = False) -> None:
        platform = toy_platform(1)
        model = ExecutionModel(cheapest, Precision(), per_layer_s=1e-6)
        executor = LEVELS["medium"](platform, model, [(0,)])
        self.host, self.overlapped = host, overlapped
        self.cost = executor.pass_cost(Forward(Layout().group(0, "tensor"), PLAN, Batch(), 0.0, "step"))

    def __call__(self, batch: Batch) -> float:
        compute_s, exchange_s = self.cost.seconds(batch)
        host_s, gpu_s = self.host.per_step_s + self.host.per_sequence_s * batch.logits, compute_s + exchange_s
        return max(host_s, gpu_s) if self.overlapped else host_s + gpu_s
