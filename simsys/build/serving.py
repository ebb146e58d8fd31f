"""From a serving scenario to a `ServingJob`: requests, KV cache, scheduler and phases of every replica."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

from simpy.events import Event

from simsys.build.cluster import Cluster
from simsys.build.imperfections import build_jitter, imperfections
from simsys.build.model import build_model
from simsys.build.modules import module_options
from simsys.build.serving_setup import ServingSetup
from simsys.build.serving_text import serving_assumptions
from simsys.build.workload import build_requests
from simsys.collectives.choose import named
from simsys.config.experiment import ModelConfig, ServingConfig, SimulationConfig
from simsys.config.hardware import load_engine
from simsys.errors import UsageError
from simsys.executors.base import ExecutionModel, Executor
from simsys.framework import FRAMEWORKS, DecodePhase, PrefillPhase, Scheduler
from simsys.metrics.collector import ServingMetrics
from simsys.model.model import Model
from simsys.model.precision import HALF, WEIGHT_ONLY, serving_precision
from simsys.model.speculation import Speculation
from simsys.model.work import Precision
from simsys.parallel.layout import Layout
from simsys.rank import Team
from simsys.serving.inbox import Inbox
from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.requests import RequestTable
from simsys.serving.scheduler import HostCosts
from simsys.serving.sequences import Sequences
from simsys.teams import DraftingTeam, PipelineTeam

SCHEDULER_LIMITS = ("max_num_seqs", "max_num_batched_tokens")
"""Engine settings that schedulers take as options."""
RANK_ORDER = ("tensor", "context", "pipeline", "data")
"""Neighbours share layers, then follow one another in a pipeline: a replica's ranks are consecutive, as in vLLM."""


@dataclass(frozen=True)
class ServingJob(ServingSetup):
    """A serving scenario, resolved and ready to start."""

    @cached_property
    def requests(self) -> RequestTable:
        """The requests of the run, as clients send them."""
        assert self.config.workload is not None
        return build_requests(self.config.workload, self.config.simulation.seed, self.config.folder)

    @cached_property
    def scheduled_requests(self) -> RequestTable:
        """The same as they reach the scheduler, the API's overhead later."""
        requests, late_s = self.requests, self.api_s
        if not late_s:
            return requests
        return replace(requests, arrival_s=[arrival_s + late_s for arrival_s in requests.arrival_s])

    def execution_model(self) -> ExecutionModel:
        """Overheads and algorithms for the executor."""
        choose = named(self.settings.communication_pattern, self.cluster.tuning)
        launches, jitter = self.launches, build_jitter(self.config)
        return ExecutionModel(choose, self.precision, self.engine.per_layer, jitter, launches)

    def collector(self) -> ServingMetrics:
        """A probe that measures this job."""
        slo = self.config.slo
        targets = slo.model_dump(exclude_none=True) if slo is not None else {}
        return ServingMetrics(self.requests, targets, self.api_s)

    def roles(self) -> list[tuple[int, ...]]:
        """The ranks of a replica's stage work in lockstep; replicas differ in their requests."""
        return [group.ranks for replica in range(self.layout.data) for group in self.teams(replica)]

    def assumptions(self) -> list[str]:
        """What the figures rest on."""
        return [*serving_assumptions(self), *imperfections(self.config), *self.requests.notes]

    def start(self, executor: Executor, *, observed: bool = False) -> Event:
        """Start the schedulers of every replica; requests are dealt out in turn, whether or not it is `observed`.

        A replica of several stages has as many engines, each with its own requests and its share of the KV cache, so
        that as many batches are in flight (the virtual engines of vLLM V0).

        Returns:
            An event that fires when all have been served.
        """
        sequences, served = Sequences(self.scheduled_requests), list[Event]()
        engines = self.layout.data * self.layout.pipeline
        for replica in range(self.layout.data):
            groups = self.teams(replica)
            for group, held in zip(groups, self.memory_by_stage, strict=True):
                for rank in group.ranks:
                    for name, nbytes in held.items():
                        executor.platform.devices[rank].memory.allocate(name, nbytes)
            team = self._team(replica, executor)
            for number, group in enumerate(groups):
                order = range(number * self.layout.data + replica, len(self.requests), engines)
                scheduler = self._scheduler(executor, sequences, order)
                served.append(executor.run(group.ranks[0], scheduler.serve(team)))
        return executor.env.all_of(served)

    def _team(self, replica: int, executor: Executor) -> Team:
        groups, given = self.teams(replica), self.config.parallelism
        if len(groups) > 1:
            parts = self.layout.tensor if given.scatter_gather or given.sequence_parallel else 1
            return PipelineTeam(groups, self.stages, executor, parts=parts)
        drafted = self.settings.speculative
        if drafted is None:
            return Team(groups[0], self.plan, executor)
        return DraftingTeam(
            groups[0],
            self.plan,
            executor,
            speculation=self.speculation,
            draft=self.draft,
            draft_s=drafted.draft_cost or 0.0,
        )

    @property
    def speculation(self) -> Speculation:
        """What is drafted; nothing by default."""
        given = self.settings.speculative
        return Speculation() if given is None else Speculation(given.draft_tokens, given.acceptance_rate)

    def _scheduler(self, executor: Executor, sequences: Sequences, order: range) -> Scheduler:
        settings = self.settings
        kv = PagedKVCache(self.engine_blocks, settings.block_size)
        inbox = Inbox(
            executor.env,
            self.scheduled_requests,
            executor.probes,
            order=order,
            capacity_tokens=self.engine_blocks * settings.block_size,
            max_context_tokens=self.max_context_tokens,
        )
        module = FRAMEWORKS.get(settings.scheduler, Scheduler)
        limits = {key: getattr(settings, key) for key in SCHEDULER_LIMITS if key in module.Options.model_fields}
        _, options = module_options(settings.scheduler, Scheduler, {**limits, **settings.options}, "serving.options")
        prefill: type[PrefillPhase] = FRAMEWORKS.get(settings.prefill, PrefillPhase)
        host = HostCosts(self.engine.per_step, self.engine.per_sequence)
        return module(options, sequences, kv, prefill(sequences), self._decode(sequences, kv), inbox, host)

    def _decode(self, sequences: Sequences, kv: PagedKVCache) -> DecodePhase:
        if self.settings.speculative is not None:
            module: Any = FRAMEWORKS.get("speculative_decode", DecodePhase)
            return cast(DecodePhase, module(sequences, kv, self.speculation))
        decode: type[DecodePhase] = FRAMEWORKS.get(self.settings.decode, DecodePhase)
        return decode(sequences, kv)


def serving_job(config: SimulationConfig, cluster: Cluster, model: Model) -> ServingJob:
    """Resolve a serving scenario whose cluster and model are built already.

    Raises:
        SimsysError: If it names something unknown or does not fit together.
    """
    assert config.serving is not None
    settings, given = config.serving, config.parallelism
    size = given.tp_degree * given.pp_stages
    data = given.dp_degree or max(1, cluster.num_gpus // size)
    layout = Layout(tensor=given.tp_degree, pipeline=given.pp_stages, data=data, order=RANK_ORDER)
    if layout.world_size > cluster.num_gpus:
        raise UsageError(f"the degrees need {layout.world_size} GPUs, the cluster has {cluster.num_gpus}")
    drafted = settings.speculative
    draft = ModelConfig(name=drafted.draft_model) if drafted is not None and drafted.draft_model else None
    return ServingJob(
        config,
        settings,
        cluster,
        model,
        load_engine(settings.engine),
        layout,
        _precision(settings, cluster),
        draft_model=None if draft is None else build_model(draft, config.folder),
    )


def _precision(settings: ServingConfig, cluster: Cluster) -> Precision:
    """What weights, activations and the KV cache are in."""
    half = next((name for name in HALF if name in cluster.spec.peak_flop_per_s), "fp32")
    return serving_precision(settings.precision, kv_precision(settings, half), half)


def kv_precision(settings: ServingConfig, half: str) -> str:
    """The precision of the KV cache: as asked for, or that of the weights unless only these are quantised."""
    if settings.kv_precision is not None:
        return settings.kv_precision
    return half if settings.precision in WEIGHT_ONLY else settings.precision
