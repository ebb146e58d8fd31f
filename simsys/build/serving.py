"""From a serving scenario to a `ServingJob`: requests, KV cache, scheduler and phases of every replica."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from simpy.events import Event

from simsys.build.cluster import Cluster
from simsys.build.economics import economic_assumptions, rates_of
from simsys.build.engine_support import doubts, engine_warnings
from simsys.build.imperfections import build_jitter, imperfections
from simsys.build.model import model_warnings
from simsys.build.modules import SCHEDULER_LIMITS, module_options
from simsys.build.resolved_serving import ResolvedServing
from simsys.build.serving_memory import ServingMemory, memory_warnings
from simsys.build.serving_precision import precision_warnings
from simsys.build.serving_text import serving_assumptions
from simsys.build.variants.variant import Variant, variants_of
from simsys.collectives.choose import OWN_KERNELS, Choose, named, with_own_all_reduce
from simsys.collectives.expert_kernels import with_expert_kernel
from simsys.config.engine_schema import EngineProfile
from simsys.config.experiment import SimulationConfig
from simsys.errors import Problem
from simsys.executors.execution_model import ExecutionModel
from simsys.executors.executor import Executor
from simsys.framework import FRAMEWORKS, DecodePhase, PrefillPhase, Router, Scheduler
from simsys.metrics.economics import serving_economics
from simsys.metrics.serving_collector import ServingMetrics
from simsys.metrics.stop_rule import StopRule
from simsys.model.description import described
from simsys.model.model import Model
from simsys.serving.deadline import Deadline
from simsys.serving.engine import Engine
from simsys.serving.engine_log import EngineLog
from simsys.serving.host_costs import HostCosts
from simsys.serving.images_in_prompts import ImagesInPrompts, with_images
from simsys.serving.intake import Intake
from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.kv_connector import KVConnector
from simsys.serving.requests import RequestTable
from simsys.serving.scheduled_ahead import ScheduledAhead
from simsys.serving.sequences import Sequences
from simsys.serving.source import Source
from simsys.teams import LockStepTeam, PipelineTeam, Team

Part = TypeVar("Part")


@dataclass(frozen=True)
class ServingJob(ServingMemory):
    """A serving scenario, resolved and ready to start.

    Args:
        stop: Decides when the run ends, in place of `simulation.duration`; None to serve all requests.
        doubts: Warnings of rules.
    """

    stop: StopRule | None = None
    doubts: tuple[Problem, ...] = ()

    def execution_model(self) -> ExecutionModel:
        """Overheads and algorithms for the executor."""
        return ExecutionModel(
            self._collectives(),
            self.precision,
            self.engine.per_layer,
            jitter=build_jitter(self.config),
            launches=self.launches,
            stepping=self.settings.stepping,
            async_scheduling=bool(self.settings.async_scheduling),
            own_algorithms=self._expert_kernels(),
            passes=self._first(each.passes(self) for each in self.variants),
        )

    def _expert_kernels(self) -> dict[tuple[int, ...], Choose]:
        """Kernels that send tokens to their experts, by the ranks of their groups."""
        choose, found = self._collectives(), dict[tuple[int, ...], Choose]()
        for pool in self.pools:
            kernel = pool.experts.kernel
            if kernel is not None:
                for replica in range(0, pool.layout.data, pool.attention_dp):
                    found[pool.lockstep(replica).everyone.ranks] = with_expert_kernel(choose, kernel)
        return found

    def _collectives(self) -> Choose:
        """Algorithms of collectives; the engine's own all-reduce is among them where it works."""
        settings, cluster, own_s = self.settings, self.cluster, self.engine.all_reduce
        choose = named(settings.communication_pattern, cluster.tuning)
        nvlink = cluster.gpu.link.kind == "nvlink" and cluster.tuning is not None
        if own_s is None or not nvlink or settings.communication_pattern != "auto":
            return choose
        return with_own_all_reduce(choose, own_s, self.engine.all_reduce_kernels or OWN_KERNELS)

    def collector(self) -> ServingMetrics:
        """A probe that measures this job."""
        gpus = self.layout.tensor * self.layout.pipeline  # scaled replicas are all equal
        return ServingMetrics(
            self.requests, self.slo, self.api_s, self.starts_s, gpus_per_replica=gpus, stop=self.stop
        )

    @property
    def slo(self) -> dict[str, float]:
        """The SLO, as `serving_metrics` expects it."""
        return self.config.slo.demands if self.config.slo is not None else {}

    @property
    def ends_early(self) -> bool:
        """Whether the run may end before its requests."""
        return self.stop is not None or self.config.simulation.duration is not None

    def roles(self) -> list[tuple[int, ...]]:
        """Roles: the ranks of a replica's stage work in lockstep; replicas differ in their requests."""
        return [
            group.ranks for pool in self.pools for replica in range(pool.layout.data) for group in pool.teams(replica)
        ]

    def warnings(self) -> list[Problem]:
        """Warnings about settings that may have an unintended meaning, each with its setting."""
        return [
            *self.cluster.warnings,
            *engine_warnings(self.engine, self.cluster.gpu_profiles, "serving.engine"),
            *doubts(self.cluster.gpu_profiles),
            *model_warnings(self.config.model, self.model),
            *precision_warnings(self.settings, self.model),
            *memory_warnings(self.pools),
            *self.doubts,
        ]

    def assumptions(self) -> list[str]:
        """Assumptions of the figures."""
        return [
            described(self.model),
            *serving_assumptions(self),
            *self.cluster.assumptions,
            *imperfections(self.config),
            *self.requests.notes,
            *economic_assumptions(self.cluster, self.config.economics),
        ]

    def economics(self, metrics: Mapping[str, Any], busy: float) -> dict[str, float | None]:
        """Cost, energy and CO2 of the run; `busy` is the busy share of the GPUs."""
        seconds, rates = metrics["duration"], rates_of(self.cluster, self.config.economics, self.num_gpus)
        paid = metrics["gpu_seconds"] / seconds if seconds and "gpu_seconds" in metrics else float(self.num_gpus)
        return serving_economics(metrics, rates, busy, on=paid / self.num_gpus)

    def start(self, executor: Executor, *, observed: bool = False) -> Event:
        """Start the replicas, the router and the source of requests, whether or not it is `observed`.

        A replica has one engine per pipeline stage, each with its own requests and its share of the KV cache, so that
        one batch per stage is in flight (the virtual engines of vLLM V0). Requests are dealt to the first engines of
        all replicas before the second ones.

        Returns:
            An event that fires when all requests have ended.
        """
        sequences = Sequences(self.requests)
        replicas = [
            (pool, pool.teams(number), self._team(pool, number, executor), number)
            for pool in self.pools
            for number in range(pool.layout.data)
        ]
        connector = self._first(each.connector(self, executor) for each in self.variants)
        together = defaultdict[tuple[int, int, int], list[Intake]](list)  # intakes of data-parallel ranks of a replica
        engines = [
            self.engine_of(
                executor,
                sequences,
                pool,
                team,
                groups[stage].ranks[0],
                together[pool.first_rank, stage, number // pool.attention_dp],
                connector,
            )
            for stage in self.stage_numbers
            for pool, groups, team, number in replicas
        ]
        source = self._first(each.source(self, executor, engines) for each in self.variants)
        source, run_s = source or self._source(executor, engines), self.config.simulation.duration
        parts = source, engines, executor.probes, executor.stop
        if self.stop is not None:
            Deadline(executor.env, self.stop.first_s(self.requests), *parts, self.stop.later_s)
        elif run_s is not None:
            Deadline(executor.env, self.starts_s + run_s, *parts)
        return source.ended

    def _source(self, executor: Executor, engines: Sequence[Engine]) -> Source:
        """The source that sends requests to all engines."""
        settings, seed = self.settings, self.config.simulation.seed
        module, options = module_options(settings.router, Router, settings.router_options, "serving.router_options")
        router, late_s, api = module(engines, seed, options), self.api_s, self.api_server()
        return Source(executor.env, self.requests, router, executor.probes, late_s=late_s, api=api)

    def _team(self, pool: ServingMemory, replica: int, executor: Executor) -> Team:
        """The ranks of a replica, with their memory in use."""
        groups, given, plan = pool.teams(replica), self.config.parallelism, pool.plan
        for group, held in zip(groups, pool.memory_by_stage, strict=True):
            for rank in group.ranks:
                for name, nbytes in held.items():
                    executor.platform.devices[rank].memory.allocate(name, nbytes)
        own = self._first(each.team(self, pool, replica, executor) for each in self.variants)
        if own is not None:
            return own
        if len(groups) > 1:
            parts = pool.layout.tensor if given.scatter_gather or given.sequence_parallel else 1
            return PipelineTeam(groups, pool.stages, executor, parts=parts)
        if pool.attention_dp > 1:
            return LockStepTeam(groups[0], plan, executor, pool.lockstep(replica))
        return Team(groups[0], plan, executor)

    @cached_property
    def variants(self) -> list[Variant]:
        """The variants of an engine that the settings turn on."""
        return variants_of(self.settings)

    @staticmethod
    def _first(made: Iterable[Part | None]) -> Part | None:
        """The part made by the first variant that makes it; None if no variant does."""
        return next((part for part in made if part is not None), None)

    def engine_of(
        self,
        executor: Executor,
        sequences: Sequences,
        pool: ServingMemory,
        team: Team,
        rank: int,
        together: list[Intake] | None = None,
        connector: KVConnector | None = None,
    ) -> Engine:
        """One engine of a replica; of simultaneous events, the engine with the lowest `rank` is first."""
        size = pool.engine_blocks, self.settings.block_size
        tiers = None if connector is None or pool.only_decodes else connector.attach(*size, sequences, team)
        kv = tiers.cache if tiers else self._first(each.kv_cache(self, pool, sequences) for each in self.variants)
        kv = kv or PagedKVCache(*size)
        scheduler, beside = self._scheduler(executor, sequences, pool, kv), [] if together is None else together
        scheduler.swap = self._first(each.swap_space(pool, team) for each in self.variants)
        if tiers:
            tiers.serve(scheduler)
        if pool.encoder is not None and isinstance(scheduler, ImagesInPrompts):
            scheduler.encode_with(pool.encoder.engine(self.requests, team, executor.probes))
        scheduler.reserves_prompts = bool(self.settings.scheduler_reserve_full_isl)
        intake: Intake | None = tiers.intake if tiers else None
        if intake is None and not pool.only_decodes:
            intake = self._first(each.intake(pool, beside) for each in self.variants)
            intake = intake or (ScheduledAhead() if self.settings.async_scheduling else None)
        log = EngineLog(scheduler.kv)
        for hook in executor.probes.replica_started:
            hook(rank, log)
        made = Engine(
            scheduler,
            team,
            executor.env,
            executor.probes,
            host=HostCosts(self.host.step_s, self.host.sequence_s),
            rank=rank,
            max_context_tokens=self.max_context_tokens,
            decode_tokens=self.pools[-1].engine_blocks * self.settings.block_size,
            intake=intake,
            log=log,
        )
        executor.at_end(made.check_finished)
        return made

    def _scheduler(self, executor: Executor, sequences: Sequences, pool: ServingMemory, kv: PagedKVCache) -> Scheduler:
        settings = self.settings
        special = next(filter(None, (each.scheduler(pool) for each in self.variants)), "")
        name, own = (special, {}) if special else (settings.scheduler, settings.options)
        module = FRAMEWORKS.get(name, Scheduler)
        if pool.encoder is not None:
            module = with_images(module)
        limits = {key: getattr(settings, key) for key in SCHEDULER_LIMITS if key in module.Options.model_fields}
        _, options = module_options(name, Scheduler, {**limits, **own}, "serving.options")
        prefill: type[PrefillPhase] = FRAMEWORKS.get(settings.prefill, PrefillPhase)
        decode = self._first(each.decode_phase(self, sequences, kv) for each in self.variants)
        decode = decode or FRAMEWORKS.get(settings.decode, DecodePhase)(sequences, kv)
        return module(options, sequences, kv, prefill(sequences), decode, executor.env, executor.probes)


def serving_job(
    config: SimulationConfig,
    settings: ResolvedServing,
    cluster: Cluster,
    model: Model,
    engine: EngineProfile,
    draft: Model | None = None,
    requests: RequestTable | None = None,
) -> ServingJob:
    """Build a serving scenario that breaks no rule from its parts, as `ServingSetup.of`."""
    return ServingJob.of(config, settings, cluster, model, engine, draft, requests)
