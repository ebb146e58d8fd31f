"""The shipped scheduler and phases on toy hardware, every step and request event written down."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from reference_serving import Limits, Step

from frameworks.chunked_prefill import ChunkedPrefill
from frameworks.llm_decode import LLMDecode
from frameworks.llm_prefill import LLMPrefill
from simsys.collectives.choose import cheapest
from simsys.executors import LEVELS
from simsys.executors.base import ExecutionModel
from simsys.framework import Scheduler, Team
from simsys.model.batch import Batch
from simsys.model.work import Precision
from simsys.ops import Forward
from simsys.parallel.layout import Layout
from simsys.parallel.passes import forward_pass
from simsys.probes import Probe, Probes
from simsys.serving.inbox import Inbox
from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.requests import RequestTable
from simsys.serving.scheduler import HostCosts
from simsys.serving.sequences import Sequences
from simsys.testing import toy_model, toy_platform

HOST = HostCosts(per_step_s=1e-6, per_sequence_s=1e-7)
PLAN = forward_pass(toy_model())


@dataclass
class Served(Probe):
    """What a run has shown."""

    kv: PagedKVCache
    steps: list[Step] = field(default_factory=list)
    events: list[tuple[str, int, float]] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    reasons: dict[int, str] = field(default_factory=dict)

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

    def times(self, event: str) -> dict[int, float]:
        return {request: time_s for name, request, time_s in self.events if name == event}


class RecordingTeam(Team):
    """Writes steps down as the scheduler asks for them."""

    def __init__(self, scheduler: Scheduler, served: Served, *args: Any) -> None:
        super().__init__(*args)
        self.chunks: list[tuple[int, int]] = []
        self.served, self.scheduler = served, scheduler
        schedule = scheduler.schedule

        def watched() -> Any:
            chunks = schedule()
            self.chunks = [tuple(chunk) for chunk in chunks]
            return chunks

        scheduler.schedule = watched

    def forward(self, batch: Batch, *, host_s: float = 0.0, name: str = "forward") -> Any:
        self.served.running.append(len(self.scheduler.running))
        event = super().forward(batch, host_s=host_s, name=name)
        started_s, chunks = self._executor.env.now, self.chunks
        event.callbacks.append(
            lambda _: self.served.steps.append(Step(chunks, batch, started_s, self._executor.env.now))
        )
        return event


def serve(
    requests: RequestTable,
    limits: Limits,
    *,
    policy: type[Scheduler] = ChunkedPrefill,
    level: str = "medium",
    host: HostCosts = HOST,
    probes: tuple[Probe, ...] = (),
) -> Served:
    """Serve `requests` on one toy GPU."""
    platform = toy_platform(1)
    kv = PagedKVCache(limits.num_blocks, limits.block_size)
    served = Served(kv)
    model = ExecutionModel(cheapest, Precision(), per_layer_s=1e-6)
    executor = LEVELS[level](platform, model, [(0,)], Probes([served, *probes]))
    sequences = Sequences(requests)
    inbox = Inbox(
        platform.env,
        requests,
        executor.probes,
        order=range(len(requests)),
        capacity_tokens=limits.num_blocks * limits.block_size,
        max_context_tokens=limits.max_context_tokens,
    )
    given = {name: getattr(limits, name) for name in policy.Options.model_fields}
    scheduler = policy(
        policy.Options(**given), sequences, kv, LLMPrefill(sequences), LLMDecode(sequences, kv), inbox, host
    )
    team = RecordingTeam(scheduler, served, Layout().group(0, "tensor"), PLAN, executor)
    platform.env.process(scheduler.serve(team))
    platform.env.run()
    return served


class StepSeconds:
    """Duration of a step on the harness' hardware, for the reference engine."""

    def __init__(self, host: HostCosts = HOST) -> None:
        platform = toy_platform(1)
        model = ExecutionModel(cheapest, Precision(), per_layer_s=1e-6)
        executor = LEVELS["medium"](platform, model, [(0,)])
        self.host = host
        self.cost = executor.pass_cost(Forward(Layout().group(0, "tensor"), PLAN, Batch(), 0.0, "step"))

    def __call__(self, batch: Batch) -> float:
        compute_s, exchange_s = self.cost.seconds(batch, lambda kind, nbytes: 0.0)
        return self.host.per_step_s + self.host.per_sequence_s * batch.logits + compute_s + exchange_s
