"""From a training scenario to a `TrainingJob`: the work of a step, the modules that run it, its memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from simsys.build.cluster import Cluster, build_cluster
from simsys.build.model import build_model
from simsys.build.modules import module_options
from simsys.collectives.choose import named
from simsys.config.experiment import SimulationConfig, TrainingConfig
from simsys.config.hardware import EngineProfile, load_engine
from simsys.errors import UsageError
from simsys.executors.base import ExecutionModel, Executor
from simsys.framework import FRAMEWORKS, DataParallel, TrainingFramework
from simsys.metrics.collector import TrainingMetrics
from simsys.model.memory import training_memory
from simsys.model.work import Batch, Model, Precision
from simsys.parallel.layout import Layout
from simsys.parallel.passes import forward_pass
from simsys.parallel.training import TrainingPlan, training_plan
from simsys.platform.device_spec import DeviceSpec
from simsys.rank import Rank

DATA_PARALLEL = {"None": "none", "DDP": "ddp", "TP": "ddp"}
"""Which data-parallel module a strategy names; without a strategy, several GPUs train with DDP."""


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
        """Tokens per sample; 1 for a model without sequences."""
        return self.config.model.sequence_length or self.model.sequence_length

    @property
    def micro_batch(self) -> Batch:
        """What one forward pass on one rank processes."""
        return self.model.training_batch(self.settings.batch_size_per_gpu, self.sequence_length)

    @property
    def global_batch_size(self) -> int:
        """Samples per iteration."""
        return self.settings.batch_size_per_gpu * self.settings.gradient_accumulation_steps * self.layout.data

    @cached_property
    def plan(self) -> TrainingPlan:
        """The work of one step on one rank."""
        return training_plan(
            forward_pass(self.model, self.layout.tensor),
            self.micro_batch,
            self.precision,
            micro_batches=self.settings.gradient_accumulation_steps,
            optimizer=self.settings.optimizer,
            tied_parameters=self.model.tied_parameters / self.layout.tensor,
            backward_layers_ratio=self.engine.backward_per_layer_factor,
        )

    @cached_property
    def memory_bytes(self) -> dict[str, float]:
        """What one GPU has to hold, by component."""
        return training_memory(
            self.model,
            self.micro_batch,
            self.precision,
            optimizer=self.settings.optimizer,
            context_bytes=self.engine.memory_context,
        )

    @cached_property
    def data_parallel(self) -> tuple[type[DataParallel], Any]:
        """The data-parallel module and its options."""
        strategy = self.config.parallelism.strategy or ("DDP" if self.layout.data > 1 else "None")
        name = self.settings.data_parallel or DATA_PARALLEL[strategy]
        return module_options(name, DataParallel, self.settings.options, "training.options")

    def execution_model(self) -> ExecutionModel:
        """Overheads and algorithms for the executor."""
        return ExecutionModel(named(self.settings.communication_pattern), self.precision, self.engine.per_layer)

    def collector(self) -> TrainingMetrics:
        """A probe that measures this job."""
        return TrainingMetrics(
            0,
            samples_per_iteration=self.global_batch_size,
            tokens_per_sample=self.sequence_length,
            model_flop_per_iteration=self.plan.flop * self.layout.world_size,
            num_gpus=self.layout.world_size,
            peak_flop_per_s=self.cluster.spec.peak_flop_per_s[self.precision.compute],
        )

    def roles(self) -> tuple[tuple[int, ...], ...]:
        """Ranks that work alike."""
        return self.layout.roles()

    def assumptions(self) -> list[str]:
        """What the figures rest on."""
        return [
            f"engine profile {self.engine.name}: {self.engine.per_layer * 1e6:g} us per layer",
            f"compute in {self.precision.compute}, gradients and optimizer states in fp32",
            f"collectives: {self.settings.communication_pattern}",
        ]

    def start(self, executor: Executor) -> None:
        """Start the process of every rank that the executor simulates."""
        module, options = self.data_parallel
        step: type[TrainingFramework] = FRAMEWORKS.get("training", TrainingFramework)
        for index in executor.ranks():
            rank = Rank(index, self.layout, executor)
            for name, nbytes in self.memory_bytes.items():
                rank.allocate(nbytes, name=name)
            framework = step(rank, self.plan, module(rank, self.plan, options))
            executor.env.process(_train(rank, framework, self.settings.num_iterations))


def _train(rank: Rank, framework: TrainingFramework, iterations: int) -> Any:
    for _ in range(iterations):
        rank.mark("iteration_start")
        yield from framework.step()
        rank.mark("iteration_end")


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
    shards = parallelism.tp_degree * parallelism.pp_stages
    data = parallelism.dp_degree or max(1, cluster.num_gpus // shards)
    layout = Layout(tensor=parallelism.tp_degree, data=data, pipeline=parallelism.pp_stages)
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
    if compute in ("fp16", "bf16"):
        return Precision(compute, weight_bytes=2.0, activation_bytes=2.0)
    return Precision(compute, weight_bytes=4.0, activation_bytes=4.0)
