"""From a serving scenario to a `ServingJob`: requests, KV cache, scheduler and phases of every replica."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from simpy.events import Event

from simsys.build.cluster import Cluster
from simsys.build.engine_support import engine_warnings
from simsys.build.imperfections import build_jitter, imperfections
from simsys.build.model import build_model, model_warnings
from simsys.build.modules import module_options
from simsys.build.resolved_serving import resolved_serving
from simsys.build.serving_cache import kv_cache, swap_space
from simsys.build.serving_precision import precision_of, precision_warnings
from simsys.build.serving_replicas import replicas_problem, start_source
from simsys.build.serving_setup import ServingSetup
from simsys.build.serving_text import serving_assumptions
from simsys.collectives.choose import OWN_KERNELS, Choose, named, with_own_all_reduce
from simsys.config.experiment import ModelConfig, SimulationConfig
from simsys.config.hardware import load_engine
from simsys.errors import Problem, UsageError
from simsys.executors import costed_model
from simsys.executors.execution_model import ExecutionModel
from simsys.executors.executor import Executor
from simsys.framework import FRAMEWORKS, DecodePhase, PrefillPhase, Scheduler
from simsys.metrics.economics import IDLE_SHARE, cost, energy
from simsys.metrics.serving_collector import ServingMetrics
from simsys.model.description import described
from simsys.model.model import Model
from simsys.model.speculation import Speculation, own_layers
from simsys.parallel.layout import Layout
from simsys.serving.batch_wait import BatchWait
from simsys.serving.deadline import Deadline
from simsys.serving.engine import Engine
from simsys.serving.engine_log import EngineLog
from simsys.serving.host_costs import HostCosts
from simsys.serving.intake import Intake
from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.polling import Polling
from simsys.serving.prefix_cache import block_chains
from simsys.serving.prefix_tree import Chain
from simsys.serving.sequences import Sequences
from simsys.sums import ordered_sum
from simsys.teams import DraftingTeam, PipelineTeam, Team

SCHEDULER_LIMITS = ("max_num_seqs", "max_num_batched_tokens")
"""Engine settings that schedulers take as options."""
RANK_ORDER = ("tensor", "context", "pipeline", "data")
"""Neighbours share layers, then follow one another in a pipeline: a replica's ranks are consecutive, as in vLLM."""


@dataclass(frozen=True)
class ServingJob(ServingSetup):
    """A serving scenario, resolved and ready to start."""

    @cached_property
    def chains(self) -> tuple[list[Chain], int]:
        """What prefix caching knows the blocks of each request by."""
        return block_chains(self.requests, self.settings.block_size)

    def execution_model(self) -> ExecutionModel:
        """Overheads and algorithms for the executor."""
        return ExecutionModel(
            self._collectives(),
            self.precision,
            self.engine.per_layer,
            jitter=build_jitter(self.config),
            launches=self.launches,
            stepping=self.settings.stepping,
            async_scheduling=self.async_scheduling,
        )

    def _collectives(self) -> Choose:
        """How collectives can be carried out; an engine's own all-reduce is compared where it works."""
        settings, cluster, own_s = self.settings, self.cluster, self.engine.all_reduce
        choose = named(settings.communication_pattern, cluster.tuning)
        nvlink = cluster.gpu.link.kind == "nvlink" and cluster.tuning is not None
        if own_s is None or not nvlink or settings.communication_pattern != "auto":
            return choose
        return with_own_all_reduce(choose, own_s, self.engine.all_reduce_kernels or OWN_KERNELS)

    def collector(self) -> ServingMetrics:
        """A probe that measures this job."""
        slo = self.config.slo
        targets = slo.model_dump(exclude_none=True) if slo is not None else {}
        gpus = self.layout.tensor * self.layout.pipeline  # scaled replicas are all alike
        return ServingMetrics(self.requests, targets, self.api_s, self.starts_s, gpus_per_replica=gpus)

    def roles(self) -> list[tuple[int, ...]]:
        """The ranks of a replica's stage work in lockstep; replicas differ in their requests."""
        return [
            group.ranks for pool in self.pools for replica in range(pool.layout.data) for group in pool.teams(replica)
        ]

    def warnings(self) -> list[Problem]:
        """What may have been meant otherwise than it was understood, each with the setting that it is about."""
        return [
            *self.cluster.warnings,
            *engine_warnings(self.engine, self.cluster.gpu_profiles, "serving.engine"),
            *model_warnings(self.config.model, self.model),
            *precision_warnings(self.settings, self.model),
        ]

    def assumptions(self) -> list[str]:
        """What the figures rest on."""
        return [
            described(self.model),
            *serving_assumptions(self),
            *self.cluster.assumptions,
            *imperfections(self.config),
            *self.requests.notes,
            *self._economics(),
        ]

    def economics(self, metrics: Mapping[str, Any], busy: float) -> dict[str, float | None]:
        """What the run costs in money and energy; `busy` is the busy share of the GPUs."""
        gpus, seconds = self.cluster.specs[: self.num_gpus], metrics["duration"]
        paid = metrics["gpu_seconds"] / seconds if seconds and "gpu_seconds" in metrics else float(len(gpus))
        rent = cost(metrics, self.cluster.usd_per_gpu_hour * paid)
        return rent | energy(metrics, ordered_sum(gpu.tdp_watt for gpu in gpus), busy, on=paid / len(gpus))

    def _economics(self) -> list[str]:
        """Where price and power come from."""
        gpu, usd = self.cluster.gpu, self.cluster.usd_per_gpu_hour
        power = f"energy: GPUs only, {IDLE_SHARE:.0%} of {gpu.tdp:g} W when idle, all of it when busy, linear between"
        price = f"price: {usd:.4g} $/h per GPU"
        if gpu.price is not None and gpu.price.usd_per_hour == usd:
            price += f", {gpu.price.source}" + (f", {gpu.price.as_of}" if gpu.price.as_of else "")
        return [price, power] if usd else [power]

    def start(self, executor: Executor, *, observed: bool = False) -> Event:
        """Start the replicas, the router and the source of requests, whether or not it is `observed`.

        A replica of several stages has as many engines, each with its own requests and its share of the KV cache, so
        that as many batches are in flight (the virtual engines of vLLM V0). Requests are dealt to the first engines of
        all replicas before the second ones.

        Returns:
            An event that fires when all requests have ended.
        """
        sequences = Sequences(self.requests)
        replicas = [
            (pool, pool.teams(number), self._team(pool, number, executor))
            for pool in self.pools
            for number in range(pool.layout.data)
        ]
        engines = [
            self._engine(executor, sequences, pool, team, groups[stage].ranks[0])
            for stage in self.stage_numbers
            for pool, groups, team in replicas
        ]
        source, run_s = start_source(self, executor, engines), self.config.simulation.duration
        if run_s is not None:
            Deadline(executor.env, self.starts_s + run_s, source, engines, executor.probes, executor.stop)
        return source.ended

    def _team(self, pool: ServingSetup, replica: int, executor: Executor) -> Team:
        """The ranks of a replica, with what they hold."""
        groups, given = pool.teams(replica), self.config.parallelism
        for group, held in zip(groups, pool.memory_by_stage, strict=True):
            for rank in group.ranks:
                for name, nbytes in held.items():
                    executor.platform.devices[rank].memory.allocate(name, nbytes)
        if len(groups) > 1:
            parts = pool.layout.tensor if given.scatter_gather or given.sequence_parallel else 1
            return PipelineTeam(groups, pool.stages, executor, parts=parts)
        drafted = self.settings.speculative
        if drafted is None:
            return Team(groups[0], pool.plan, executor)
        return DraftingTeam(
            groups[0],
            pool.plan,
            executor,
            speculation=self.speculation,
            draft=pool.draft,
            draft_s=drafted.draft_cost or 0.0,
        )

    @property
    def speculation(self) -> Speculation:
        """What is drafted; nothing by default."""
        given = self.settings.speculative
        return Speculation() if given is None else Speculation(given.draft_tokens, given.acceptance_rate)

    def _engine(self, executor: Executor, sequences: Sequences, pool: ServingSetup, team: Team, rank: int) -> Engine:
        """One engine of a replica; of what happens at one moment, that with the lowest `rank` is first."""
        decodes = pool.first_rank > 0
        scheduler = self._scheduler(executor, sequences, kv_cache(self, pool, sequences, decodes=decodes), decodes)
        scheduler.swap = swap_space(pool, team)
        scheduler.reserves_prompts = self.settings.scheduler_reserve_full_isl
        host_speed = self.cluster.spec.host_speed
        log = EngineLog(scheduler.kv)
        for hook in executor.probes.replica_started:
            hook(rank, log)
        made = Engine(
            scheduler,
            team,
            executor.env,
            executor.probes,
            host=HostCosts(self.engine.per_step / host_speed, self.engine.per_sequence / host_speed),
            rank=rank,
            max_context_tokens=self.max_context_tokens,
            decode_tokens=self.pools[-1].engine_blocks * self.settings.block_size,
            intake=None if decodes else self._intake(),
            log=log,
        )
        executor.at_end(made.check_finished)
        return made

    def _intake(self) -> Intake | None:
        """What requests pass before the scheduler sees them."""
        settings = self.settings
        if settings.batch_wait_timeout_iters:
            enough = (settings.batch_wait_max_tokens_ratio or 1.0) * settings.max_num_batched_tokens
            return BatchWait(settings.batch_wait_timeout_iters, enough)
        if settings.scheduler_recv_interval > 1:
            return Polling(settings.scheduler_recv_interval)
        return None

    def _scheduler(
        self,
        executor: Executor,
        sequences: Sequences,
        kv: PagedKVCache,
        decodes: bool,
    ) -> Scheduler:
        settings = self.settings
        name, own = settings.scheduler, settings.options
        if decodes and settings.disaggregated is not None:
            name, own = settings.disaggregated.decode_scheduler, {}
        module = FRAMEWORKS.get(name, Scheduler)
        limits = {key: getattr(settings, key) for key in SCHEDULER_LIMITS if key in module.Options.model_fields}
        _, options = module_options(name, Scheduler, {**limits, **own}, "serving.options")
        prefill: type[PrefillPhase] = FRAMEWORKS.get(settings.prefill, PrefillPhase)
        decode = self._decode(sequences, kv)
        return module(options, sequences, kv, prefill(sequences), decode, executor.env, executor.probes)

    def _decode(self, sequences: Sequences, kv: PagedKVCache) -> DecodePhase:
        if self.settings.speculative is not None:
            module: Any = FRAMEWORKS.get("speculative_decode", DecodePhase)
            return cast(DecodePhase, module(sequences, kv, self.speculation, self.config.simulation.seed))
        decode: type[DecodePhase] = FRAMEWORKS.get(self.settings.decode, DecodePhase)
        return decode(sequences, kv)


def serving_job(config: SimulationConfig, cluster: Cluster, model: Model) -> ServingJob:
    """Resolve a serving scenario whose cluster and model are built already.

    Raises:
        SimsysError: If it names something unknown or does not fit together.
    """
    assert config.serving is not None
    given, engine = config.parallelism, load_engine(config.serving.engine, config.profile_folders)
    settings = resolved_serving(config.serving, engine, cluster, model)
    size = given.tp_degree * given.pp_stages
    data = given.dp_degree or max(1, cluster.num_gpus // size)
    layout = Layout(tensor=given.tp_degree, pipeline=given.pp_stages, data=data, order=RANK_ORDER)
    if layout.world_size > cluster.num_gpus:
        raise UsageError(f"the degrees need {layout.world_size} GPUs, the cluster has {cluster.num_gpus}")
    problem = replicas_problem(config, data, cluster.num_gpus)
    if problem is not None:
        raise UsageError(problem.reason)
    drafted = settings.speculative
    draft: Model | None = None
    if drafted is not None and drafted.draft_model:
        draft = costed_model(build_model(ModelConfig(name=drafted.draft_model), config.folder), config.simulation.lod)
    elif drafted is not None and drafted.draft_layers:
        draft = own_layers(model, drafted.draft_layers)
    return ServingJob(
        config,
        settings,
        cluster,
        model,
        engine,
        layout,
        precision_of(settings, cluster.spec, model),
        draft_model=draft,
    )
