"""The experiment file's `training`: batches, precision, optimizer, recomputation and the software stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from simsys.config.base import CommunicationPattern, FrozenModel, invalid
from simsys.config.iterations import (
    BatchScheduleEntry,
    CheckpointConfig,
    DataLoadingConfig,
    FailuresConfig,
    check_batch_schedule,
    check_checkpoint,
)

TrainingPrecision = Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp4"]


class TrainingConfig(FrozenModel):
    """A training job. Alias: ``num_nodes``, which belongs to ``hardware``.

    `activation_recompute` says what the backward pass computes again instead of having kept it: ``selective`` the
    attention core, ``half`` every second matrix product or block, ``full`` each block. `attention` is ``fused`` by the
    best kernels for the GPU, or by those of FlashAttention 2 or 1 (as in Triton), or not; then its softmax is one
    kernel, or ``eager``: a kernel for each operation, some in fp32. So are `norms`. `fused_optimizer`: the update is
    one kernel, or one for each operation. `batch_schedule` changes the batch in the course of the run.
    """

    other_names: ClassVar[Mapping[str, str]] = {
        "micro_batch_size": "batch_size_per_gpu",
        "batch_size": "batch_size_per_gpu",
        "global_batch_size": "batch_size_per_gpu",
        "num_microbatches": "gradient_accumulation_steps",
        "train_iters": "num_iterations",
        "recompute_granularity": "activation_recompute",
        "gradient_checkpointing": "activation_recompute",
    }

    batch_size_per_gpu: PositiveInt
    num_iterations: PositiveInt = 10
    gradient_accumulation_steps: PositiveInt = 1
    mixed_precision: bool = True
    precision: TrainingPrecision | None = None
    optimizer: Literal["adam", "sgd"] = "adam"
    fused_optimizer: bool = True
    activation_recompute: Literal["none", "selective", "half", "full"] = "none"
    attention: Literal["fused", "flash2", "flash1", "unfused", "eager"] = "fused"
    norms: Literal["fused", "eager"] = "fused"
    communication_pattern: CommunicationPattern = "auto"
    engine: str = "pytorch"
    data_parallel: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    num_nodes: PositiveInt | None = None
    batch_schedule: list[BatchScheduleEntry] = Field(default_factory=list)
    checkpoint: CheckpointConfig | None = None
    data_loading: DataLoadingConfig | None = None
    failures: FailuresConfig | None = None

    @model_validator(mode="after")
    def _precision_fits(self) -> Self:
        if self.precision in ("fp16", "bf16", "fp8", "fp4") and not self.mixed_precision:
            raise invalid(f"precision {self.precision} is mixed precision; drop mixed_precision: false")
        return self

    @model_validator(mode="after")
    def _iterations_suffice(self) -> Self:
        check_batch_schedule(self.batch_schedule, self.num_iterations)
        check_checkpoint(self.checkpoint, self.num_iterations)
        return self
