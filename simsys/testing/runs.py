"""Runs of one framework module on toys: what the conformance kit repeats, compares and watches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from simsys.collectives.choose import cheapest
from simsys.executors import LEVELS
from simsys.executors.base import ExecutionModel, Executor
from simsys.executors.recording import Recording
from simsys.framework import (
    FRAMEWORKS,
    DataParallel,
    DecodePhase,
    PrefillPhase,
    Rank,
    Router,
    Schedule,
    Scheduler,
    Sequences,
    Steps,
    Team,
    TrainingFramework,
)
from simsys.model.batch import NOTHING, Batch
from simsys.model.work import Precision
from simsys.parallel.layout import Group, Layout
from simsys.parallel.passes import ForwardPass, forward_pass
from simsys.parallel.plan import StepSettings, TrainingPlan
from simsys.parallel.stages import partition
from simsys.parallel.training import training_plan
from simsys.platform.environment import Environment
from simsys.probes import Probe, Probes
from simsys.serving.engine import Engine
from simsys.serving.host_costs import HostCosts
from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.requests import RequestTable
from simsys.serving.source import Source
from simsys.starter import Stepper
from simsys.testing.schedules import accepted
from simsys.testing.toys import toy_model, toy_platform, toy_requests

STEPPING = "stepping"
"""Medium detail with an event for every step of a serving replica."""
RUNS: dict[str, type[Executor]] = {"recording": Recording, **LEVELS, STEPPING: LEVELS["medium"]}
MAX_EVENTS = 300_000
PIPELINES = ((2, 4, 1), (4, 8, 1), (2, 4, 2), (4, 4, 3))
"""Stages, micro-batches and chunks with which a schedule is run, if it accepts them."""
CHUNK_LAYERS = 3
LIMITS = {"max_num_seqs": 8, "max_num_batched_tokens": 64}
"""Set for every scheduler that has such options."""


def toy_executor(level: str, layout: Layout, roles: Sequence[Sequence[int]], probes: Iterable[Probe]) -> Executor:
    """An executor over as many toy GPUs as the layout has ranks."""
    model = ExecutionModel(cheapest, Precision(), per_layer_s=1e-6, stepping=level == STEPPING)
    return RUNS[level](toy_platform(layout.world_size), model, roles, Probes(probes))


def finish(env: Environment) -> None:
    """Run to the end, which must come within `MAX_EVENTS` events."""
    for _ in range(MAX_EVENTS):
        if env.peek() == float("inf"):
            return
        env.step()
    raise AssertionError(f"no end within {MAX_EVENTS} events, at {env.now} s")


@dataclass
class TrainingRun:
    """What a training run has shown.

    Args:
        iteration_end_s: End of every iteration, by rank.
        leaks: Allocations that differ after an iteration from before the first, in words.
        operations: Of a recording.
    """

    iteration_end_s: dict[int, list[float]] = field(default_factory=dict)
    leaks: list[str] = field(default_factory=list)
    operations: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class TrainingCase:
    """A data-parallel module, a training module or a schedule, its options and an arrangement of ranks.

    Args:
        module: What is tried; the rest are shipped modules.
        options: Settings of a data-parallel module.
        layout: The arrangement.
        iterations: How many are run.
        micro_batches: Of each iteration.
        chunks: Chunks of layers on each pipeline stage.
    """

    module: type[DataParallel] | type[TrainingFramework] | type[Schedule]
    options: Any
    layout: Layout
    iterations: int = 3
    micro_batches: int = 2
    chunks: int = 1

    @property
    def words(self) -> str:
        """What sets this case apart."""
        virtual = f" with {self.chunks} chunks per stage" if self.chunks > 1 else ""
        return f"on {self.layout}{virtual}"

    def run(self, level: str, probes: Iterable[Probe] = ()) -> TrainingRun:
        """Run all iterations of all ranks; raises what the module raises."""
        executor = toy_executor(level, self.layout, self.layout.roles(), probes)
        run = TrainingRun()
        for rank in executor.ranks():
            executor.run(rank, self._train(rank, executor, run))
        finish(executor.env)
        executor.check_finished()
        run.operations = executor.operations if isinstance(executor, Recording) else []
        return run

    def _train(self, index: int, executor: Executor, run: TrainingRun) -> Steps:
        rank = Rank(index, self.layout, executor)
        framework = self._framework(rank)
        memory = executor.platform.devices[index].memory
        declared = memory.held
        ends = run.iteration_end_s.setdefault(index, [])
        for iteration in range(self.iterations):
            rank.mark("iteration_start")
            yield from framework.step()
            rank.mark("iteration_end")
            ends.append(rank.now)
            if memory.held != declared:
                run.leaks.append(f"rank {index} holds {memory.held} after iteration {iteration}")

    def _framework(self, rank: Rank) -> TrainingFramework:
        module = self.module
        schedule = module() if issubclass(module, Schedule) else FRAMEWORKS.get("1f1b", Schedule)()
        plan = self._plan(self.layout.coordinates(rank.index)["pipeline"], schedule)
        ddp = FRAMEWORKS.get("ddp", DataParallel)
        data_parallel = (
            module(rank, plan, self.options) if issubclass(module, DataParallel) else ddp(rank, plan, ddp.Options())
        )
        training = module if issubclass(module, TrainingFramework) else FRAMEWORKS.get("training", TrainingFramework)
        return training(rank, plan, data_parallel, schedule)

    def _plan(self, stage: int, schedule: Schedule) -> TrainingPlan:
        pieces = self.layout.pipeline * self.chunks
        # A pass through a chunk takes longer than the message that follows it, so that messages do not queue.
        model = toy_model(2 if pieces == 1 else CHUNK_LAYERS * pieces)
        settings = StepSettings(
            precision=Precision(), micro_batches=self.micro_batches, split_backward=schedule.splits_backward
        )
        stages = partition(forward_pass(model, self.layout.tensor), self.layout.pipeline, self.chunks)
        return training_plan(stages[stage], model.training_batch(2, 32), settings, tensor=self.layout.tensor)


@dataclass
class ServingRun(Probe):
    """What a serving run has shown; hears the run as a probe.

    Args:
        history: Every event of every request: (event, request, time in s).
        forwarded: Steps, and the tokens, logits and decoding sequences of each, of every run of steps.
        prompt_tokens: Prompt tokens processed.
        free_blocks: KV blocks free at the end.
        held: KV blocks still attributed to requests at the end.
        operations: Of a recording.
    """

    history: list[tuple[str, int, float]] = field(default_factory=list)
    forwarded: list[tuple[int, float, float, float]] = field(default_factory=list)
    prompt_tokens: int = 0
    free_blocks: int = 0
    held: dict[int, int] = field(default_factory=dict)
    operations: list[dict[str, Any]] = field(default_factory=list)

    def request_admitted(self, request: int, now_s: float) -> None:
        """Write it down."""
        self.history.append(("admitted", request, now_s))

    def request_first_token(self, request: int, now_s: float) -> None:
        """Write it down."""
        self.history.append(("first token", request, now_s))

    def request_finished(self, request: int, now_s: float) -> None:
        """Write it down."""
        self.history.append(("finished", request, now_s))

    def request_preempted(self, request: int, now_s: float) -> None:
        """Write it down."""
        self.history.append(("preempted", request, now_s))

    def request_rejected(self, request: int, reason: str, now_s: float) -> None:
        """Write it down."""
        self.history.append(("rejected", request, now_s))

    def steps(self, rank: int, runs: Sequence[float]) -> None:
        """Add up."""
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
        sequences = Sequences(self.requests)
        plan = forward_pass(toy_model(), self.tensor)
        teams = [Watched(layout.group(role[0], "tensor"), plan, executor, run) for role in roles]
        replicas = [self._replica(executor, sequences, team) for team in teams]
        router = self.router or FRAMEWORKS.get("round_robin", Router)
        Source(executor.env, self.requests, router(replicas, 0), executor.probes)
        finish(executor.env)
        executor.check_finished()
        run.free_blocks = sum(replica.kv.free_blocks for replica in replicas)
        run.held = {request: blocks for replica in replicas for request, blocks in replica.kv.held.items()}
        run.operations = executor.operations if isinstance(executor, Recording) else []
        return run

    def _replica(self, executor: Executor, sequences: Sequences, team: Team) -> Engine:
        kv = PagedKVCache(self.num_blocks, self.block_size)
        phases = self.prefill(sequences), self.decode(sequences, kv)
        scheduler = self.scheduler(self.options, sequences, kv, *phases, executor.env, executor.probes)
        watch_schedule(scheduler)
        replica = Engine(
            scheduler,
            team,
            executor.env,
            executor.probes,
            host=HostCosts(1e-6, 1e-7),
            max_context_tokens=self.max_context_tokens,
        )
        executor.at_end(replica.check_finished)
        return replica


class Watched(Team):
    """A team that writes down what its steps process."""

    def __init__(self, group: Group, plan: ForwardPass, executor: Executor, run: ServingRun) -> None:
        super().__init__(group, plan, executor)
        self._run = run

    def steps(self, done: Callable[[int], None]) -> Stepper:
        """As `Team.steps`."""
        return WatchedSteps(super().steps, done, self._run)


class WatchedSteps:
    """Carries out steps as another one, and writes down those that have ended."""

    def __init__(
        self, make: Callable[[Callable[[int], None]], Stepper], done: Callable[[int], None], run: ServingRun
    ) -> None:
        self._stepper, self._done, self._run = make(self._ended), done, run
        self._each: tuple[float, float, float] = (0, 0, 0)
        self.cut, self.passed, self.stop = self._stepper.cut, self._stepper.passed, self._stepper.stop

    def run(self, batch: Batch, steps: int, host_s: float, more: Batch = NOTHING) -> None:
        """As `Stepper.run`."""
        self._each = batch.tokens, batch.logits, batch.decode_sequences
        self._stepper.run(batch, steps, host_s, more)

    def decode(self, sequences: int, context_tokens: float, steps: int, host_s: float) -> None:
        """As `Stepper.decode`."""
        self._each = sequences, sequences, sequences
        self._stepper.decode(sequences, context_tokens, steps, host_s)

    def _ended(self, steps: int) -> None:
        self._run.forwarded.append((steps, *self._each))
        self._done(steps)


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
                raise AssertionError(f"a chunk of {count} tokens, not of what is left of request {request}'s prompt")
        return chunks

    # The scheduler calls its own method, so the watch hangs on the instance.
    vars(scheduler)["schedule"] = watched


def record(module: type, **options: Any) -> list[dict[str, Any]]:
    """What a module asks for, on toys and without time.

    Args:
        module: A `DataParallel`, `TrainingFramework`, `Schedule`, `Scheduler`, `PrefillPhase`, `DecodePhase` or
            `Router` class.
        options: Its settings.

    Returns:
        The operations in order, as `simsys.executors.recording.describe` writes them.
    """
    return cases(module, options)[0].run("recording").operations


def cases(module: type, given: dict[str, Any]) -> Sequence[TrainingCase | ServingCase]:
    """The arrangements in which a module is tried.

    Raises:
        AssertionError: If it is no framework module.
    """
    if issubclass(module, Scheduler | PrefillPhase | DecodePhase | Router):
        scheduler = module if issubclass(module, Scheduler) else FRAMEWORKS.get("chunked_prefill", Scheduler)
        prefill = module if issubclass(module, PrefillPhase) else FRAMEWORKS.get("llm_prefill", PrefillPhase)
        decode = module if issubclass(module, DecodePhase) else FRAMEWORKS.get("llm_decode", DecodePhase)
        limits = {key: value for key, value in LIMITS.items() if key in scheduler.Options.model_fields}
        options = scheduler.Options(**{**limits, **given})
        # The first cache is ample, the second makes preemptions; some requests exceed the context in both.
        requests = toy_requests(max_prompt=44)
        places = range(len(requests))
        requests = replace(requests, priority=[each % 3 for each in places], tenant=[each % 2 for each in places])
        made = [ServingCase(scheduler, options, prefill, decode, blocks, requests) for blocks in (1000, 20)]
        if issubclass(module, Router):
            return [replace(case, router=module, tensor=1, replicas=3) for case in made]
        return made
    if issubclass(module, DataParallel | TrainingFramework):
        settings = module.Options(**given) if issubclass(module, DataParallel) else None
        return [
            TrainingCase(module, settings, Layout(data=2), iterations=1),
            TrainingCase(module, settings, Layout(data=4)),
            TrainingCase(module, settings, Layout(tensor=2, data=2), iterations=2),
            TrainingCase(module, settings, Layout(data=2, pipeline=2), iterations=2, micro_batches=4),
        ]
    if issubclass(module, Schedule):
        return [
            TrainingCase(module, None, Layout(pipeline=stages), 2, micro_batches, chunks)
            for stages, micro_batches, chunks in PIPELINES
            if accepted(module(), stages, micro_batches, chunks) is not None
        ]
    raise AssertionError(f"{module.__name__} is no framework module: derive it from a class of simsys.framework")
