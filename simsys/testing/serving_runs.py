"""Runs of a serving module on toys, with every answer of its scheduler checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from simsys.executors.executor import Executor
from simsys.executors.recording import Recording
from simsys.framework import FRAMEWORKS, DecodePhase, PrefillPhase, Router, Scheduler
from simsys.model.batch import Batch
from simsys.parallel.layout import Group, Layout
from simsys.parallel.passes import ForwardPass, forward_pass
from simsys.probes import Probe
from simsys.serving.cancelled import Cancelled
from simsys.serving.requests import RequestTable
from simsys.testing.engines import EngineHarness, EngineParts, WatchedTeam
from simsys.testing.toys import MAX_EVENTS, finish, toy_executor, toy_model, toy_requests


@dataclass
class ServingRun(Probe):
    """Records of a serving run; a probe.

    Args:
        history: Every event of every request: (event, request, time in s).
        forwarded: Steps, and the tokens, logits and decoding sequences of each, of every run of steps.
        prompt_tokens: Prompt tokens processed.
        free_blocks: KV blocks free at the end.
        held: KV blocks still attributed to requests at the end.
        operations: Recorded operations.
    """

    history: list[tuple[str, int, float]] = field(default_factory=list)
    forwarded: list[tuple[int, float, float, float]] = field(default_factory=list)
    prompt_tokens: int = 0
    free_blocks: int = 0
    held: dict[int, int] = field(default_factory=dict)
    operations: list[dict[str, Any]] = field(default_factory=list)

    def request_admitted(self, request: int, now_s: float) -> None:
        """Record the event."""
        self.history.append(("admitted", request, now_s))

    def request_first_token(self, request: int, now_s: float) -> None:
        """Record the event."""
        self.history.append(("first token", request, now_s))

    def request_finished(self, request: int, now_s: float) -> None:
        """Record the event."""
        self.history.append(("finished", request, now_s))

    def request_preempted(self, request: int, now_s: float) -> None:
        """Record the event."""
        self.history.append(("preempted", request, now_s))

    def request_rejected(self, request: int, reason: str, now_s: float) -> None:
        """Record the event."""
        self.history.append(("rejected", request, now_s))

    def request_cancelled(self, request: int, cancelled: Cancelled) -> None:
        """Record the event."""
        self.history.append(("cancelled", request, cancelled.time_s))

    def steps(self, rank: int, runs: Sequence[float]) -> None:
        """Count the tokens of finished steps."""
        self.prompt_tokens += sum(int(count * tokens) for count, tokens in zip(runs[1::6], runs[3::6], strict=True))


@dataclass(frozen=True)
class ServingCase:
    """A scheduler with its phases, a KV cache and requests."""

    scheduler: type[Scheduler]
    options: Any
    prefill: type[PrefillPhase]
    decode: type[DecodePhase]
    num_blocks: int
    requests: RequestTable = field(default_factory=toy_requests)
    block_size: int = 4
    max_context_tokens: int = 64
    tensor: int = 2
    router: type[Router] | None = None
    replicas: int = 1

    @property
    def words(self) -> str:
        """What sets this case apart."""
        several = f" on each of {self.replicas} replicas" if self.replicas > 1 else ""
        return f"with {self.num_blocks} KV blocks{several}"

    def run(self, level: str, probes: Iterable[Probe] = ()) -> ServingRun:
        """Serve all requests; raises what the modules raise."""
        run = ServingRun()
        layout = Layout(tensor=self.tensor, data=self.replicas)
        roles = [tuple(range(start, start + self.tensor)) for start in range(0, layout.world_size, self.tensor)]
        executor = toy_executor(level, layout, roles, [run, *probes])
        harness = EngineHarness(executor, self.requests)
        plan = forward_pass(toy_model(), self.tensor)
        for role in roles:
            team = Forwarded(layout.group(role[0], "tensor"), plan, executor, run)
            harness.engine(team, self._parts(), watch=watch_schedule)
        router = self.router or FRAMEWORKS.get("round_robin", Router)
        harness.start(router(harness.engines, 0))
        finish(executor.env)
        executor.check_finished()
        replicas = harness.engines
        run.free_blocks = sum(replica.kv.free_blocks for replica in replicas)
        run.held = {request: blocks for replica in replicas for request, blocks in replica.kv.held.items()}
        run.operations = executor.operations if isinstance(executor, Recording) else []
        return run

    def _parts(self) -> EngineParts:
        return EngineParts(
            self.num_blocks,
            self.block_size,
            self.scheduler,
            self.options,
            self.prefill,
            self.decode,
            max_context_tokens=self.max_context_tokens,
        )


class Forwarded(WatchedTeam):
    """A team that writes down what its steps process."""

    def __init__(self, group: Group, plan: ForwardPass, executor: Executor, run: ServingRun) -> None:
        super().__init__(group, plan, executor)
        self._run = run
        self._each: tuple[float, float, float] = (0, 0, 0)

    def began(self, batch: Batch) -> None:
        """Record the batch of each step."""
        self._each = batch.tokens, batch.logits, batch.decode_sequences

    def ended(self, steps: int) -> None:
        """Write it down; simulated time may stand still, so that events alone do not show that there is no end."""
        self._run.forwarded.append((steps, *self._each))
        if len(self._run.forwarded) > MAX_EVENTS:
            raise AssertionError(f"no end within {MAX_EVENTS} runs of steps")


def watch_schedule(scheduler: Scheduler) -> None:
    """Let every answer of the scheduler be checked, and that it is not asked for ever."""
    schedule, max_calls = scheduler.schedule, MAX_EVENTS // 10
    max_seqs = getattr(scheduler.options, "max_num_seqs", None)
    max_tokens = getattr(scheduler.options, "max_num_batched_tokens", None)
    calls = 0

    def watched() -> Any:
        nonlocal calls
        calls += 1
        if calls > max_calls:
            raise AssertionError(f"no end after {max_calls} calls of schedule")
        chunks = schedule()
        decoding = scheduler.decode.size if scheduler.mixes or not chunks else 0
        tokens = decoding + sum(chunk.tokens for chunk in chunks)
        if max_tokens is not None and tokens > max_tokens:
            raise AssertionError(f"a step of {tokens} tokens exceeds max_num_batched_tokens={max_tokens}")
        if max_seqs is not None and len(scheduler.running) > max_seqs:
            raise AssertionError(f"{len(scheduler.running)} running requests exceed max_num_seqs={max_seqs}")
        for request, count in chunks:
            if request not in scheduler.prefilling:
                raise AssertionError(f"a chunk of request {request}, which is not running or has its prompt complete")
            if not 0 < count <= scheduler.sequences.remaining_prompt(request):
                raise AssertionError(f"a chunk of {count} tokens, not the rest of the prompt of request {request}")
        return chunks

    # The scheduler calls its own method, so the watch hangs on the instance.
    vars(scheduler)["schedule"] = watched
