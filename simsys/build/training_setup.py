"""A training scenario, resolved: the division of the model, the batch and the model states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import Any

from simsys.build.batches import BatchPhase, batch_phases
from simsys.build.cluster import Cluster
from simsys.build.modules import module_options
from simsys.config.experiment import SimulationConfig
from simsys.config.hardware import EngineProfile
from simsys.config.parallelism import ParallelismConfig
from simsys.config.training import TrainingConfig
from simsys.errors import UsageError
from simsys.framework import FRAMEWORKS, DataParallel
from simsys.model.adapters import Adapters, with_trained_adapters
from simsys.model.batch import Batch
from simsys.model.model import Model
from simsys.model.multi_token import with_predicted_tokens
from simsys.model.windows import in_training
from simsys.model.work import FP32_BYTES, Precision
from simsys.parallel.activations import recomputed_parts
from simsys.parallel.expert_load import expected_copies
from simsys.parallel.layout import Layout
from simsys.parallel.overlap import OverlappedWith
from simsys.parallel.passes import ForwardPass, forward_pass
from simsys.parallel.pipeline_schedule import Schedule
from simsys.parallel.plan import StepSettings, TrainingPlan
from simsys.parallel.segments import Experts
from simsys.parallel.stages import both_directions, partition
from simsys.parallel.training import training_plan
from simsys.parallel.training_memory import Shards
from simsys.sums import ordered_sum

DATA_PARALLEL = {"DDP": "ddp", "ZERO1": "zero1", "ZERO2": "zero2", "FSDP": "fsdp", "HSDP": "fsdp"}
"""The data-parallel module of each part of a strategy's name."""


@dataclass(frozen=True)
class TrainingSetup:
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
        """Tokens per sample, on the side of the encoder if there are two sides; 1 for a model without sequences."""
        return self.config.model.sequence_length or self.model.sequence_length

    @cached_property
    def trained_model(self) -> Model:
        """The model with its windows applied to sequences of this length, and with adapters if these are trained."""
        fused, block = fuses(self.settings.attention), self.settings.attention_block
        model = in_training(self.model, self.sequence_length, fused=fused, block=block)
        if self.settings.mtp_layers:
            model = with_predicted_tokens(model, self.settings.mtp_layers)
        given = self.settings.adapter
        if given is None:
            return model
        adapters = Adapters(given.rank, given.target_modules, given.kind == "qlora", given.dropout > 0.0)
        return with_trained_adapters(model, adapters, tied=self.layout.pipeline == 1)

    @cached_property
    def phases(self) -> list[BatchPhase]:
        """Iterations with one size of batch, in order."""
        return batch_phases(self.settings)

    @property
    def global_batch_size(self) -> int:
        """Samples of the first iteration."""
        return self.phases[0].samples * self.layout.data

    def micro_batch(self, phase: BatchPhase) -> Batch:
        """The batch of one forward pass on one rank."""
        return self._batch(phase.batch_size_per_gpu, fused=fuses(self.settings.attention)).part(self.layout.context)

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
        stages = partition(whole, self.layout.pipeline, given.virtual_stages, given.stage_layers)
        return both_directions(stages) if self.schedule.bidirectional else stages

    def forward_pass(self, load: float) -> ForwardPass:
        """One rank's share of the whole model, if its experts have `load` times the mean number of tokens."""
        return forward_pass(
            self.trained_model,
            self.layout.tensor,
            self.config.parallelism.sequence_parallel,
            experts=self._experts(load) if self.layout.expert > 1 else None,
            context_degree=self.layout.context,
            overlap=self.config.parallelism.tp_overlap,
            overlapped_with=self._overlapped_with,
        )

    @property
    def _overlapped_with(self) -> OverlappedWith:
        """What hides the all-to-alls of experts."""
        given = self.config.parallelism
        return (
            "computation" if given.expert_overlap else "shared_experts" if given.shared_expert_overlap else "nothing"
        )

    def _experts(self, load: float) -> Experts:
        """The division of experts; DeepEP sends a token once to each node of its experts, in one node to each GPU."""
        layout, copies = self.layout, 0.0
        if self.config.parallelism.expert_dispatch == "deepep":
            each = 1 if layout.whole_experts else layout.tensor
            nodes = -(-layout.expert * each // self.cluster.gpus_per_node)
            copies = expected_copies(self.model.experts_per_token, nodes if nodes > 1 else layout.expert)
        return Experts(layout.expert, load, whole=layout.whole_experts, copies=copies)

    @cached_property
    def plans(self) -> list[list[TrainingPlan]]:
        """For each phase and pipeline stage, the work of one step on one rank."""
        return [self._stage_plans(phase) for phase in self.phases]

    def step_settings(self, phase: BatchPhase) -> StepSettings:
        """Settings of the computation and memory of a step of a phase."""
        return StepSettings(
            precision=self.precision,
            micro_batches=phase.micro_batches,
            optimizer=self.settings.optimizer,
            fused_optimizer=self.settings.fused_optimizer,
            optimizer_shards=self.shards.optimizer,
            expert_optimizer_shards=self.expert_shards.optimizer,
            scatter_gather=self.config.parallelism.scatter_gather,
            p2p_overlap=self.config.parallelism.p2p_overlap,
            sequence_parallel=self.config.parallelism.sequence_parallel,
            backward_layers_ratio=self.engine.backward_per_layer_factor,
            split_backward=self.schedule.splits_backward,
            recompute=recomputed_parts(self.settings.activation_recompute),
            loss_bytes_per_logit=self.engine.loss_bytes_per_logit or 0.0,
            per_step_s=self.engine.per_step,
            attention_effort=attention_effort(self.settings.attention, self.cluster.gpu.nccl),
            elementwise=self.engine.elementwise or 1.0,
            expert_elementwise=self.engine.expert_elementwise or self.engine.elementwise or 1.0,
            eager_scores=self.settings.attention == "eager",
            eager_norms=self.settings.norms == "eager",
            cast_bytes_per_weight=self.engine.cast_bytes_per_weight or 0.0,
            copied_bytes_per_weight=self._copied_bytes_per_weight(),
        )

    def _copied_bytes_per_weight(self) -> tuple[float, float]:
        module, options = self.data_parallel
        return module.copied_bytes_per_weight(options, self.layout.replicas, self.precision.weight_bytes)

    def _stage_plans(self, phase: BatchPhase) -> list[TrainingPlan]:
        settings = self.step_settings(phase)
        tied, stages = self.trained_model.tied_parameters / self.layout.tensor, len(self.stages)
        plans = [
            training_plan(
                chunks,
                self.micro_batch(phase),
                settings,
                tied_parameters=tied if stages == 1 else 0.0,
                tensor=self.layout.tensor,
                vocab_size=self.model.vocab_size / self.layout.tensor,
            )
            for chunks in self.stages
        ]
        if self.schedule.bidirectional:
            plans = [replace(plan, directions=2) for plan in plans]
        if stages > 1 and tied:
            shared = tied * settings.gradient_bytes_per_parameter / self.shards.gradients
            for end in (0, -1):
                plans[end] = replace(plans[end], shared_gradient_bytes=shared)
        return plans

    @property
    def tied_parameters(self) -> float:
        """Weights of a rank that belong to two blocks of its stage."""
        return self.trained_model.tied_parameters / self.layout.tensor if self.layout.pipeline == 1 else 0.0

    def buffer_bytes(self, chunks: Sequence[ForwardPass]) -> float:
        """The gradient buckets of a rank with these layers."""
        module, options = self.data_parallel
        parameters = ordered_sum(chunk.parameters for chunk in chunks) - self.tied_parameters
        return module.buffer_bytes(options, FP32_BYTES * parameters)

    @cached_property
    def data_parallel(self) -> tuple[type[DataParallel], Any]:
        """The data-parallel module and its options; by default a hybrid shard is the size of a node."""
        own, given = self.settings.data_parallel, self.settings.options
        name = own or data_parallel_module(self.config.parallelism)
        if own is None and "HSDP" in self.config.parallelism.parts:
            in_node = max(1, self.cluster.gpus_per_node // self.layout.tensor)
            given = {"shard_size": gcd(self.layout.replicas, in_node), **given}
        return module_options(name, DataParallel, given, "training.options")

    @cached_property
    def shards(self) -> Shards:
        """The division of model states among the ranks with equal weights.

        Raises:
            UsageError: If the options do not fit the number of ranks, or if the profile does not describe the host
                that they need.
        """
        module, options = self.data_parallel
        shards = module.shards(options, self.layout.replicas)
        lacking = next((spec for spec in self.cluster.specs if not spec.host_update_bytes_per_s), None)
        if shards.on_host and lacking is not None:
            raise UsageError(f"offload: the profile of {lacking.name} does not describe a host; add 'host'")
        return shards

    @cached_property
    def expert_shards(self) -> Shards:
        """The division of the states of experts that are divided among ranks."""
        module, options = self.data_parallel
        return module.shards(options, self.layout.expert_replicas // self.layout.expert)

    def _batch(self, samples: int, *, fused: bool) -> Batch:
        answer = self.config.model.decoder_sequence_length
        return self.model.training_batch(
            samples,
            self.sequence_length,
            answer,
            fused_attention=fused,
            attention_block=self.settings.attention_block,
        )


def fuses(attention: str) -> bool:
    """Whether kernels of this kind keep scores on the chip and skip masked parts."""
    return attention not in ("unfused", "eager")


ATTENTION_EFFORT = {
    "flash1": {"volta": 1.0, "ampere": 2.0, "hopper": 3.2, "blackwell": 3.2},
    "flash2": {"volta": 1.0, "ampere": 1.0, "hopper": 1.6, "blackwell": 1.6},
}
"""Time of a generation of attention kernels, relative to the best kernels for a generation of GPUs. FlashAttention 2
needs half of the time of the first (Dao 2023, §4.1), and the third 1.5 to 2.0 times less on Hopper (Shah et al. 2024,
§4.1); assumed for Blackwell, too.
"""


def attention_effort(kernels: str, generation: str | None) -> float:
    """Time of attention kernels, relative to the best kernels for a generation of GPUs."""
    return ATTENTION_EFFORT.get(kernels, {}).get(generation or "ampere", 1.0)


def expert_load(parallelism: ParallelismConfig) -> float:
    """Tokens of the busiest expert-parallel rank, divided by the mean, without tokens dropped beyond the capacity."""
    capacity = parallelism.expert_capacity_factor
    return parallelism.expert_skew if capacity is None else min(parallelism.expert_skew, capacity)


def data_parallel_module(parallelism: ParallelismConfig) -> str:
    """The data-parallel module that a strategy names; without a strategy, replicas train with DDP."""
    if parallelism.strategy == "None":
        return "none"
    return next((module for kind, module in DATA_PARALLEL.items() if kind in parallelism.parts), "ddp")
