"""From a serving scenario to a `ServingJob`: requests, KV cache, scheduler and phases of every replica."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from simsys.build.cluster import Cluster, build_cluster
from simsys.build.model import build_model
from simsys.build.modules import module_options
from simsys.build.workload import build_requests
from simsys.collectives.choose import named
from simsys.config.experiment import ServingConfig, SimulationConfig
from simsys.config.hardware import EngineProfile, load_engine
from simsys.errors import InfeasibleError, UsageError
from simsys.executors.base import ExecutionModel, Executor
from simsys.framework import FRAMEWORKS, DecodePhase, PrefillPhase, Scheduler
from simsys.metrics.collector import ServingMetrics
from simsys.metrics.economics import IDLE_SHARE, cost, energy
from simsys.model.memory import kv_bytes_per_token, serving_memory
from simsys.model.model import Model
from simsys.model.work import Precision
from simsys.parallel.layout import Layout
from simsys.parallel.passes import ForwardPass, forward_pass
from simsys.rank import Team
from simsys.serving.inbox import Inbox
from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.requests import RequestTable
from simsys.serving.scheduler import HostCosts
from simsys.serving.sequences import Sequences
from simsys.units import Dimension, pretty

BYTES_PER_ELEMENT = {"fp32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0}
SCHEDULER_LIMITS = ("max_num_seqs", "max_num_batched_tokens")
"""Engine settings that schedulers take as options."""


@dataclass(frozen=True)
class ServingJob:
    """A serving scenario, resolved."""

    config: SimulationConfig
    settings: ServingConfig
    cluster: Cluster
    model: Model
    engine: EngineProfile
    layout: Layout
    precision: Precision

    @cached_property
    def requests(self) -> RequestTable:
        """The requests of the run."""
        assert self.config.workload is not None
        return build_requests(self.config.workload, self.config.simulation.seed, self.config.folder)

    @cached_property
    def plan(self) -> ForwardPass:
        """One rank's share of the model."""
        return forward_pass(self.model, self.layout.tensor)

    @cached_property
    def fixed_bytes(self) -> dict[str, float]:
        """What a GPU holds besides the KV cache, by component."""
        return serving_memory(
            self.model,
            self.precision,
            tensor_degree=self.layout.tensor,
            widest_elements_per_token=self.plan.widest_elements_per_token,
            max_batched_tokens=self.settings.max_num_batched_tokens,
            max_num_seqs=self.settings.max_num_seqs,
            context_bytes=self.engine.memory_context,
        )

    @property
    def usable_bytes(self) -> float:
        """Memory of a GPU that the engine may use."""
        share = self.settings.gpu_memory_utilization or self.engine.gpu_memory_utilization
        return self.cluster.smallest.memory_bytes * share

    @cached_property
    def num_blocks(self) -> int:
        """KV-cache blocks of a replica: what memory is left, in whole blocks.

        Raises:
            InfeasibleError: If not even one block is left.
        """
        each = kv_bytes_per_token(self.model, self.precision, self.layout.tensor) * self.settings.block_size
        if not each:
            raise UsageError(f"model {self.model.name} has no KV cache and cannot be served as a language model")
        blocks = int((self.usable_bytes - sum(self.fixed_bytes.values())) // each)
        if blocks < 1:
            raise InfeasibleError(self.shortage())
        return blocks

    @property
    def memory_bytes(self) -> dict[str, float]:
        """What a GPU holds, by component."""
        each = kv_bytes_per_token(self.model, self.precision, self.layout.tensor) * self.settings.block_size
        return {**self.fixed_bytes, "kv_cache": self.num_blocks * each}

    @property
    def max_context_tokens(self) -> int:
        """Longest prompt plus output; 0 for no limit."""
        return self.settings.max_model_len or self.model.max_context_tokens

    def shortage(self) -> str:
        """Why the model does not fit, for people."""
        parts = ", ".join(f"{name} {pretty(size, Dimension.BYTES)}" for name, size in self.fixed_bytes.items())
        needed = pretty(sum(self.fixed_bytes.values()), Dimension.BYTES)
        usable = pretty(self.usable_bytes, Dimension.BYTES)
        return (
            f"{self.model.name} does not fit: {needed} are needed before any KV cache ({parts}), {usable} are usable"
        )

    def execution_model(self) -> ExecutionModel:
        """Overheads and algorithms for the executor."""
        choose = named(self.settings.communication_pattern, self.cluster.tuning)
        return ExecutionModel(choose, self.precision, self.engine.per_layer)

    def collector(self) -> ServingMetrics:
        """A probe that measures this job."""
        slo = self.config.slo
        targets = slo.model_dump(exclude_none=True) if slo is not None else {}
        return ServingMetrics(self.requests, targets)

    def roles(self) -> list[tuple[int, ...]]:
        """The ranks of a replica work in lockstep; replicas differ in their requests."""
        size = self.layout.tensor
        return [tuple(range(start, start + size)) for start in range(0, self.layout.world_size, size)]

    def assumptions(self) -> list[str]:
        """What the figures rest on."""
        return [
            f"engine profile {self.engine.name}: {self.engine.per_layer * 1e6:g} us per layer",
            f"KV cache: {self.num_blocks} blocks of {self.settings.block_size} tokens per replica",
            f"collectives: {self.settings.communication_pattern}",
            *self._economics(),
        ]

    def economics(self, metrics: Mapping[str, Any], busy: float) -> dict[str, float | None]:
        """What the run costs in money and energy; `busy` is the busy share of the GPUs."""
        gpus = self.cluster.specs[: self.layout.world_size]
        rent = cost(metrics, self.cluster.usd_per_gpu_hour * len(gpus))
        return rent | energy(metrics, sum(gpu.tdp_watt for gpu in gpus), busy)

    def _economics(self) -> list[str]:
        """Where price and power come from."""
        gpu, usd = self.cluster.gpu, self.cluster.usd_per_gpu_hour
        power = f"energy: GPUs alone, {IDLE_SHARE:.0%} of {gpu.tdp:g} W when idle, all of it when busy, linear between"
        price = f"price: {usd:.4g} $/h per GPU"
        if gpu.price is not None and gpu.price.usd_per_hour == usd:
            price += f", {gpu.price.source}" + (f", {gpu.price.as_of}" if gpu.price.as_of else "")
        return [price, power] if usd else [power]

    def start(self, executor: Executor, *, observed: bool = False) -> None:
        """Start the scheduler of every replica; requests are dealt out in turn, whether or not it is `observed`."""
        sequences = Sequences(self.requests)
        for replica in range(self.layout.data):
            group = self.layout.group(replica * self.layout.tensor, "tensor")
            for rank in group.ranks:
                for name, nbytes in self.memory_bytes.items():
                    executor.platform.devices[rank].memory.allocate(name, nbytes)
            order = range(replica, len(self.requests), self.layout.data)
            scheduler = self._scheduler(executor, sequences, order)
            for hook in executor.probes.replica_started:
                hook(group.ranks[0], scheduler.kv)
            executor.run(group.ranks[0], scheduler.serve(Team(group, self.plan, executor)))

    def _scheduler(self, executor: Executor, sequences: Sequences, order: range) -> Scheduler:
        settings = self.settings
        kv = PagedKVCache(self.num_blocks, settings.block_size)
        inbox = Inbox(
            executor.env,
            self.requests,
            executor.probes,
            order=order,
            capacity_tokens=self.num_blocks * settings.block_size,
            max_context_tokens=self.max_context_tokens,
        )
        module = FRAMEWORKS.get(settings.scheduler, Scheduler)
        limits = {key: getattr(settings, key) for key in SCHEDULER_LIMITS if key in module.Options.model_fields}
        _, options = module_options(settings.scheduler, Scheduler, {**limits, **settings.options}, "serving.options")
        prefill: type[PrefillPhase] = FRAMEWORKS.get(settings.prefill, PrefillPhase)
        decode: type[DecodePhase] = FRAMEWORKS.get(settings.decode, DecodePhase)
        host = HostCosts(self.engine.per_step, self.engine.per_sequence)
        return module(options, sequences, kv, prefill(sequences), decode(sequences, kv), inbox, host)


def build_serving(config: SimulationConfig) -> ServingJob:
    """Resolve a serving scenario.

    Raises:
        SimsysError: If it names something unknown or does not fit together.
    """
    cluster = build_cluster(config.hardware, config.network, config.folder)
    return serving_job(config, cluster, build_model(config.model, config.folder))


def serving_job(config: SimulationConfig, cluster: Cluster, model: Model) -> ServingJob:
    """Resolve a serving scenario whose cluster and model are built already; raises as `build_serving`."""
    assert config.serving is not None
    settings, parallelism = config.serving, config.parallelism
    data = parallelism.dp_degree or max(1, cluster.num_gpus // parallelism.tp_degree)
    layout = Layout(tensor=parallelism.tp_degree, data=data)
    if layout.world_size > cluster.num_gpus:
        raise UsageError(f"the degrees need {layout.world_size} GPUs, the cluster has {cluster.num_gpus}")
    weight_bytes = BYTES_PER_ELEMENT[settings.precision]
    precision = Precision(
        settings.precision,
        weight_bytes=weight_bytes,
        activation_bytes=max(weight_bytes, 2.0),
        kv_bytes=BYTES_PER_ELEMENT[settings.kv_precision or settings.precision],
    )
    return ServingJob(config, settings, cluster, model, load_engine(settings.engine), layout, precision)
