"""Runs of one framework module on toy scenarios, for the conformance kit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from simsys.executors.executor import Executor
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
    Steps,
    TrainingFramework,
)
from simsys.model.work import Precision
from simsys.parallel.layout import Layout
from simsys.parallel.passes import forward_pass
from simsys.parallel.plan import StepSettings, TrainingPlan
from simsys.parallel.stages import both_directions, partition
from simsys.parallel.training import training_plan
from simsys.probes import Probe
from simsys.testing.schedules import accepted
from simsys.testing.serving_runs import ServingCase
from simsys.testing.toys import finish, toy_executor, toy_model, toy_requests

PIPELINES = ((2, 4, 1), (4, 8, 1), (2, 4, 2), (4, 4, 3))
"""Stages, micro-batches and chunks with which a schedule is run, if it accepts them."""
CHUNK_LAYERS = 3
LIMITS = {"max_num_seqs": 8, "max_num_batched_tokens": 64}
"""Set for every scheduler that has such options."""


@dataclass
class TrainingRun:
    """Records of a training run.

    Args:
        iteration_end_s: End of every iteration, by rank.
        leaks: Allocations that differ after an iteration from before the first, as text.
        operations: Recorded operations.
        operations_by_step: Number of recorded operations at the end of every iteration, by rank.
        same_steps: Whether the data-parallel module declares that every step but the first is the same, and the first.
    """

    iteration_end_s: dict[int, list[float]] = field(default_factory=dict)
    leaks: list[str] = field(default_factory=list)
    operations: list[dict[str, Any]] = field(default_factory=list)
    operations_by_step: dict[int, list[int]] = field(default_factory=dict)
    same_steps: tuple[bool, bool] = (False, False)


@dataclass(frozen=True)
class TrainingCase:
    """A data-parallel module, a training module or a schedule, its options and an arrangement of ranks.

    Args:
        module: The module under test; the others are shipped modules.
        options: Settings of a data-parallel module.
        layout: The arrangement.
        iterations: Number of iterations.
        micro_batches: Micro-batches per iteration.
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
        run.same_steps = framework.data_parallel.same_every_step, framework.data_parallel.same_first_step
        memory = executor.platform.devices[index].memory
        declared = memory.held
        ends = run.iteration_end_s.setdefault(index, [])
        for iteration in range(self.iterations):
            rank.mark("iteration_start")
            yield from framework.step()
            rank.mark("iteration_end")
            ends.append(rank.now)
            if isinstance(executor, Recording):
                count = sum(op["rank"] == index for op in executor.operations)
                run.operations_by_step.setdefault(index, []).append(count)
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
        chunks = self.chunks // 2 if schedule.bidirectional else self.chunks
        pieces = self.layout.pipeline * chunks
        # A pass through a chunk is longer than its message, so messages do not queue.
        model = toy_model(2 if pieces == 1 else CHUNK_LAYERS * pieces)
        settings = StepSettings(
            precision=Precision(), micro_batches=self.micro_batches, split_backward=schedule.splits_backward
        )
        stages = partition(forward_pass(model, self.layout.tensor), self.layout.pipeline, chunks)
        stages = both_directions(stages) if schedule.bidirectional else stages
        return training_plan(stages[stage], model.training_batch(2, 32), settings, tensor=self.layout.tensor)


def record(module: type, **options: Any) -> list[dict[str, Any]]:
    """The operations of a module on toy scenarios, without times.

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
