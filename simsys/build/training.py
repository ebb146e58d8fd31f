"""From a training scenario to a `TrainingJob`: the work of a step, the modules that run it, its memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import Any

from simsys.build.batches import BatchPhase, batch_phases, iteration_assumptions, mean_over_iterations
from simsys.build.checkpoints import build_checkpoints
from simsys.build.cluster import Cluster, build_cluster
from simsys.build.model import build_model
from simsys.build.modules import module_options
from simsys.collectives.choose import named
from simsys.config.experiment import SimulationConfig
from simsys.config.hardware import EngineProfile, load_engine
from simsys.config.parallelism import ParallelismConfig
from simsys.config.training import TrainingConfig
from simsys.errors import UsageError
from simsys.executors.base import ExecutionModel, Executor
from simsys.executors.checkpoints import Checkpoints
from simsys.executors.iterations import Phase, TrainingLoop
from simsys.framework import FRAMEWORKS, DataParallel, TrainingFramework
from simsys.metrics.collector import TrainingMetrics
from simsys.model.batch import Batch
from simsys.model.model import Model
from simsys.model.work import FP32_BYTES, Precision
from simsys.parallel.layout import Layout
from simsys.parallel.memory import ChunkMemory, Shards, checkpoint_bytes, chunk_memory, model_states, training_memory
from simsys.parallel.passes import ForwardPass, forward_pass
from simsys.parallel.plan import Recompute, StepSettings, TrainingPlan
from simsys.parallel.schedule import Action, Schedule, peak_in_flight
from simsys.parallel.segments import Experts
from simsys.parallel.stages import partition
from simsys.parallel.training import model_flop, training_plan
from simsys.platform.device_spec import DeviceSpec
from simsys.rank import Rank

DATA_PARALLEL = {"DDP": "ddp", "ZERO1": "zero1", "ZERO2": "zero2", "FSDP": "fsdp", "HSDP": "fsdp"}
"""Which data-parallel module a part of a strategy's name stands for."""


@dataclass(frozen=True)
class TrainingJob:
    """A training scenario, resolved."""

    config: SimulationConfig
    settings: TrainingConfig
    cluster: Cluster
    model: Model
    engine: EngineProfile
    layout: Layout
    precision: Precision

    @property
    def sequence_length(self) -> int:
        """Tokens per sample, those of the encoder if there are two sides; 1 for a model without sequences."""
        return self.config.model.sequence_length or self.model.sequence_length

    @cached_property
    def phases(self) -> list[BatchPhase]:
        """Iterations with one size of batch, in order."""
        return batch_phases(self.settings)

    @property
    def global_batch_size(self) -> int:
        """Samples of the first iteration."""
        return self.phases[0].samples * self.layout.data

    def micro_batch(self, phase: BatchPhase) -> Batch:
        """What one forward pass on one rank processes."""
        return self._batch(phase.batch_size_per_gpu, fused=self.settings.attention == "fused").part(
            self.layout.context
        )

    @cached_property
    def schedule(self) -> Schedule:
        """The order of micro-batches in the pipeline."""
        name = self.config.parallelism.schedule if self.layout.pipeline > 1 else "1f1b"
        return FRAMEWORKS.get(name, Schedule)()

    @cached_property
    def stages(self) -> list[list[ForwardPass]]:
        """For each pipeline stage, the chunks of layers that one of its ranks runs."""
        given = self.config.parallelism
        whole = self.forward_pass(expert_load(given))
        if self.layout.pipeline == 1:
            return [[whole]]
        return partition(whole, self.layout.pipeline, given.virtual_stages, given.stage_layers)

    def forward_pass(self, load: float) -> ForwardPass:
        """One rank's share of the whole model, if its experts have so many times the mean of the tokens."""
        return forward_pass(
            self.model,
            self.layout.tensor,
            self.config.parallelism.sequence_parallel,
            experts=Experts(self.layout.expert, load) if self.layout.expert > 1 else None,
            context_degree=self.layout.context,
            overlap=self.config.parallelism.tp_overlap,
        )

    @cached_property
    def plans(self) -> list[list[TrainingPlan]]:
        """For each phase and pipeline stage, the work of one step on one rank."""
        return [self._stage_plans(phase) for phase in self.phases]

    def _stage_plans(self, phase: BatchPhase) -> list[TrainingPlan]:
        settings = StepSettings(
            precision=self.precision,
            micro_batches=phase.micro_batches,
            optimizer=self.settings.optimizer,
            fused_optimizer=self.settings.fused_optimizer,
            optimizer_shards=self.shards.optimizer,
            expert_optimizer_shards=self.expert_shards.optimizer,
            scatter_gather=self.config.parallelism.scatter_gather,
            sequence_parallel=self.config.parallelism.sequence_parallel,
            backward_layers_ratio=self.engine.backward_per_layer_factor,
            split_backward=self.schedule.splits_backward,
            recompute=Recompute(self.settings.activation_recompute),
        )
        tied, stages = self.model.tied_parameters / self.layout.tensor, len(self.stages)
        plans = [
            training_plan(
                chunks,
                self.micro_batch(phase),
                settings,
                tied_parameters=tied if stages == 1 else 0.0,
                tensor=self.layout.tensor,
            )
            for chunks in self.stages
        ]
        if stages > 1 and tied:
            shared = tied * settings.gradient_bytes_per_parameter / self.shards.gradients
            for end in (0, -1):
                plans[end] = replace(plans[end], shared_gradient_bytes=shared)
        return plans

    @cached_property
    def memory_by_stage(self) -> list[dict[str, float]]:
        """For each pipeline stage, what one of its GPUs has to hold in the phase that needs most, by component."""
        by_phase = [self._memory(phase) for phase in self.phases]
        return [max(stage, key=lambda parts: sum(parts.values())) for stage in zip(*by_phase, strict=True)]

    def _memory(self, phase: BatchPhase) -> list[dict[str, float]]:
        return [
            training_memory(
                chunks,
                self._activations(phase, chunks),
                self.precision,
                in_flight=peak_in_flight(self._actions(stage, phase.micro_batches)),
                optimizer=self.settings.optimizer,
                tied_parameters=self.tied_parameters,
                context_bytes=self.engine.memory_context,
                buffer_bytes=self.buffer_bytes(chunks),
                shards=self.shards,
                expert_shards=self.expert_shards,
                usable=self.engine.gpu_memory_utilization,
            )
            for stage, chunks in enumerate(self.stages)
        ]

    @property
    def host_bytes(self) -> float:
        """Model states of one GPU that live in the memory of its host, in the stage that has most of them."""
        return max(sum(self._host_states(chunks)) for chunks in self.stages)

    def _host_states(self, chunks: Sequence[ForwardPass]) -> list[float]:
        states = model_states(
            chunks,
            self.precision,
            optimizer=self.settings.optimizer,
            tied_parameters=self.tied_parameters,
            shards=self.shards,
            expert_shards=self.expert_shards,
        )
        return [states[name] for name in self.shards.on_host]

    @property
    def tied_parameters(self) -> float:
        """A rank's share of the weights that stand in two blocks of its stage."""
        return self.model.tied_parameters / self.layout.tensor if self.layout.pipeline == 1 else 0.0

    def buffer_bytes(self, chunks: Sequence[ForwardPass]) -> float:
        """What a rank with these layers collects gradients in."""
        module, options = self.data_parallel
        parameters = sum(chunk.parameters for chunk in chunks) - self.tied_parameters
        return module.buffer_bytes(options, FP32_BYTES * parameters)

    def _activations(self, phase: BatchPhase, chunks: Sequence[ForwardPass]) -> list[ChunkMemory]:
        """What a micro-batch holds in each chunk of a stage."""
        recompute = Recompute(self.settings.activation_recompute)
        vocabulary, batch = self.model.vocab_size / self.layout.tensor, self.micro_batch(phase)
        return [
            chunk_memory(chunk, batch, self.precision, vocab_size=vocabulary, recompute=recompute) for chunk in chunks
        ]

    @property
    def memory_bytes(self) -> dict[str, float]:
        """What the fullest GPU has to hold, by component."""
        return max(self.memory_by_stage, key=lambda parts: sum(parts.values()))

    def _actions(self, stage: int, micro_batches: int) -> list[Action]:
        return self.schedule.actions(stage, len(self.stages), micro_batches, len(self.stages[stage]))

    @cached_property
    def data_parallel(self) -> tuple[type[DataParallel], Any]:
        """The data-parallel module and its options; a hybrid shard is what fits into a node unless told otherwise."""
        own, given = self.settings.data_parallel, self.settings.options
        name = own or data_parallel_module(self.config.parallelism)
        if own is None and "HSDP" in self.config.parallelism.parts:
            in_node = max(1, self.cluster.gpus_per_node // self.layout.tensor)
            given = {"shard_size": gcd(self.layout.replicas, in_node), **given}
        return module_options(name, DataParallel, given, "training.options")

    @cached_property
    def shards(self) -> Shards:
        """How model states are divided among the ranks that hold the same weights.

        Raises:
            UsageError: If the options do not fit so many ranks, or nothing is known of the host that they name.
        """
        module, options = self.data_parallel
        shards = module.shards(options, self.layout.replicas)
        if shards.on_host and not self.cluster.spec.host_update_bytes_per_s:
            raise UsageError(f"offload: the profile of {self.cluster.spec.name} does not describe a host; add 'host'")
        return shards

    @cached_property
    def expert_shards(self) -> Shards:
        """The same for experts that are divided among ranks."""
        module, options = self.data_parallel
        return module.shards(options, self.layout.replicas // self.layout.expert)

    def execution_model(self) -> ExecutionModel:
        """Overheads and algorithms for the executor."""
        return ExecutionModel(named(self.settings.communication_pattern), self.precision, self.engine.per_layer)

    def collector(self) -> TrainingMetrics:
        """A probe that measures this job."""
        phases, samples = self.phases, [phase.samples * self.layout.data for phase in self.phases]
        return TrainingMetrics(
            0,
            samples=[(phase.iterations, each) for phase, each in zip(phases, samples, strict=True)],
            samples_per_iteration=mean_over_iterations(phases, samples),
            tokens_per_sample=self.sequence_length,
            model_flop_per_iteration=mean_over_iterations(phases, map(self.model_flop, samples)),
            hardware_flop_per_iteration=mean_over_iterations(phases, map(self._hardware_flop, self.plans)),
            num_gpus=self.layout.world_size,
            peak_flop_per_s=self.cluster.spec.peak_flop_per_s[self.precision.compute],
            checkpoint_bytes=self.checkpoint_bytes if self.settings.checkpoint else 0.0,
        )

    def model_flop(self, samples: int) -> float:
        """FLOP of an iteration as MFU counts them: every query-key pair of attention, nothing computed again."""
        return model_flop(self.model, self._batch(samples, fused=False))

    def _batch(self, samples: int, *, fused: bool) -> Batch:
        answer = self.config.model.decoder_sequence_length
        return self.model.training_batch(samples, self.sequence_length, answer, fused_attention=fused)

    @property
    def checkpoint_bytes(self) -> float:
        """What a checkpoint of the model consists of."""
        return checkpoint_bytes(self.model.parameters, self.precision, self.settings.optimizer, self.shards)

    def checkpoints(self) -> Checkpoints | None:
        """When checkpoints are taken and how long they take; the ranks that hold the same weights share the work."""
        held = []
        for chunks in self.stages:
            experts = sum(chunk.expert_parameters for chunk in chunks)
            rest = sum(chunk.parameters for chunk in chunks) - experts - self.tied_parameters
            held.append((rest + experts * self.layout.expert) / self.layout.replicas)
        copied_bytes = checkpoint_bytes(max(held), self.precision, self.settings.optimizer, self.shards)
        return build_checkpoints(self.settings.checkpoint, self.cluster.spec, self.checkpoint_bytes, copied_bytes)

    def _hardware_flop(self, plans: Sequence[TrainingPlan]) -> float:
        """FLOP that all GPUs together carry out in an iteration; with skewed experts a little too many.

        Every rank is taken to be as busy as the busiest.
        """
        return sum(plan.flop for plan in plans) * self.layout.tensor * self.layout.replicas

    def roles(self) -> tuple[tuple[int, ...], ...]:
        """Ranks that work alike."""
        return self.layout.roles()

    def assumptions(self) -> list[str]:
        """What the figures rest on."""
        return [
            f"engine profile {self.engine.name}: {self.engine.per_layer * 1e6:g} us per layer",
            f"compute in {self.precision.compute}, gradients and optimizer states in fp32",
            f"{self.settings.attention} attention, activation recomputation: {self.settings.activation_recompute}",
            "MFU counts the whole square of attention and no recomputation; HFU counts what is computed",
            f"collectives: {self.settings.communication_pattern}",
            *iteration_assumptions(self.settings),
        ]

    def start(self, executor: Executor, *, observed: bool = False) -> None:
        """Start the ranks that the executor simulates; if the run is `observed`, every iteration is simulated."""
        module, options = self.data_parallel
        step: type[TrainingFramework] = FRAMEWORKS.get("training", TrainingFramework)
        frameworks = []
        for index in executor.ranks():
            rank = Rank(index, self.layout, executor)
            stage = self.layout.coordinates(index)["pipeline"]
            for name, nbytes in self.memory_by_stage[stage].items():
                rank.allocate(nbytes, name=name)
            plan = self.plans[0][stage]
            frameworks.append(step(rank, plan, module(rank, plan, options), self.schedule))
        loading = self.settings.data_loading
        loop = TrainingLoop(
            executor,
            frameworks,
            self._loop_phases([framework.rank for framework in frameworks]),
            prefetch=loading is not None and loading.prefetch,
            checkpoints=self.checkpoints(),
        )
        repeatable = module.same_every_step and not observed
        executor.env.process(loop.run(self.settings.num_iterations, repeatable=repeatable))

    def _loop_phases(self, ranks: Sequence[Rank]) -> list[Phase]:
        """The phases with the plans of `ranks`; a micro-batch takes as long to load as it has samples."""
        loading = self.settings.data_loading
        sample_s = loading.time / self.settings.batch_size_per_gpu if loading is not None else 0.0
        stages = [self.layout.coordinates(rank.index)["pipeline"] for rank in ranks]
        return [
            Phase(phase.start, tuple(plans[stage] for stage in stages), phase.samples * sample_s)
            for phase, plans in zip(self.phases, self.plans, strict=True)
        ]


def expert_load(parallelism: ParallelismConfig) -> float:
    """Tokens of the busiest expert-parallel rank over the mean, once what exceeds the capacity has been dropped."""
    capacity = parallelism.expert_capacity_factor
    return parallelism.expert_skew if capacity is None else min(parallelism.expert_skew, capacity)


def data_parallel_module(parallelism: ParallelismConfig) -> str:
    """The data-parallel module that a strategy names; without a strategy, replicas train with DDP."""
    if parallelism.strategy == "None":
        return "none"
    return next((module for kind, module in DATA_PARALLEL.items() if kind in parallelism.parts), "ddp")


def build_training(config: SimulationConfig) -> TrainingJob:
    """Resolve a training scenario.

    Raises:
        SimsysError: If it names something unknown or does not fit together.
    """
    cluster = build_cluster(config.hardware, config.network)
    return training_job(config, cluster, build_model(config.model, config.folder))


def training_job(config: SimulationConfig, cluster: Cluster, model: Model) -> TrainingJob:
    """Resolve a training scenario whose cluster and model are built already; raises as `build_training`."""
    assert config.training is not None
    settings, parallelism = config.training, config.parallelism
    layout = Layout(
        tensor=parallelism.tp_degree,
        context=parallelism.cp_degree,
        data=parallelism.dp_degree or max(1, cluster.num_gpus // parallelism.shards),
        pipeline=parallelism.pp_stages,
        expert=parallelism.ep_degree,
        order=parallelism.axes,
    )
    if layout.world_size != cluster.num_gpus:
        raise UsageError(f"the degrees need {layout.world_size} GPUs, the cluster has {cluster.num_gpus}")
    precision = training_precision(settings, cluster.spec)
    return TrainingJob(config, settings, cluster, model, load_engine(settings.engine), layout, precision)


def training_precision(settings: TrainingConfig, spec: DeviceSpec) -> Precision:
    """Mixed precision computes in bf16 where the GPU has it, else in fp16; weights are kept in fp32 besides."""
    peaks = spec.peak_flop_per_s
    compute: str | None = settings.precision
    if compute is None:
        half = "bf16" if "bf16" in peaks else "fp16"
        compute = half if settings.mixed_precision else ("tf32" if "tf32" in peaks else "fp32")
    if compute == "fp8":
        return Precision(compute, weight_bytes=1.0, activation_bytes=2.0)
    if compute in ("fp16", "bf16"):
        return Precision(compute, weight_bytes=2.0, activation_bytes=2.0)
    return Precision(compute, weight_bytes=4.0, activation_bytes=4.0)
