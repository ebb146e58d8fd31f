"""The experiment file's `training`: batches, precision, optimizer, recomputation and the software stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import (
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    NonNegativeInt,
    PositiveInt,
    WithJsonSchema,
    model_validator,
)

from simsys.config.adapter import AdapterConfig
from simsys.config.base import CommunicationPattern, FrozenModel, invalid
from simsys.config.iterations import (
    BatchScheduleEntry,
    CheckpointConfig,
    DataLoadingConfig,
    FailuresConfig,
    TargetConfig,
    check_batch_schedule,
    check_checkpoint,
)
from simsys.errors import did_you_mean

TrainingPrecision = Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp4"]
RecomputeKind = Literal["none", "selective", "half", "full"]
RecomputeModule = Literal["core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts"]


def _recomputed(value: Any) -> Any:
    """Refuse unknown kinds of recomputation and unknown modules; the order of modules does not matter."""
    kinds, modules = get_args(RecomputeKind), get_args(RecomputeModule)
    possible = f"write {', '.join(kinds)}, or a list of {', '.join(modules)}"
    given = list(value) if isinstance(value, list | tuple) else [value]
    known = modules if isinstance(value, list | tuple) else kinds
    for each in given:
        if each not in known:
            raise invalid(f"unknown {each!r}{did_you_mean(str(each), [*kinds, *modules])}; {possible}")
    if isinstance(value, str):
        return value
    if not given or len(set(given)) < len(given):
        raise invalid(f"modules are named once each, and at least one is; {possible}")
    return tuple(module for module in modules if module in given)


ActivationRecompute = Annotated[
    RecomputeKind | tuple[RecomputeModule, ...],
    BeforeValidator(_recomputed),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": list(get_args(RecomputeKind)), "type": "string"},
                {"items": {"enum": list(get_args(RecomputeModule)), "type": "string"}, "minItems": 1, "type": "array"},
            ]
        }
    ),
]


class TrainingConfig(FrozenModel):
    """A training job. Alias: ``num_nodes``, which belongs to ``hardware``.

    `global_batch_size` replaces `gradient_accumulation_steps`, which then follows from the layout.
    `activation_recompute` sets which activations the backward pass computes again: ``selective`` the attention core,
    ``half`` every second matrix product or block, ``full`` each block, and a list of modules those of Megatron-LM's
    ``--recompute-modules``: ``core_attn``, ``layernorm``, ``mla_up_proj``, ``mlp``, ``moe``, ``moe_act`` and
    ``shared_experts``. `attention` selects the kernels: ``fused`` (the
    best of the GPU), ``flash2`` or ``flash1`` (FlashAttention 2 or 1, as in Triton), ``unfused`` (softmax in one
    kernel), or ``eager`` (one kernel per operation, some in fp32). `attention_block` is the size of the blocks of
    queries and keys of fused kernels, where it is large (MaxText: ``sa_block_kv``): of the blocks that a mask or a
    window cuts, all pairs are computed. `norms` are one kernel or one per operation, and so is the update with or
    without `fused_optimizer`. `batch_schedule` changes the batch in the course of the run.
    """

    other_names: ClassVar[Mapping[str, str]] = {
        "micro_batch_size": "batch_size_per_gpu",
        "batch_size": "batch_size_per_gpu",
        "train_micro_batch_size_per_gpu": "batch_size_per_gpu",
        "per_device_train_batch_size": "batch_size_per_gpu",
        "local_batch_size": "batch_size_per_gpu",
        "train_batch_size": "global_batch_size",
        "num_microbatches": "gradient_accumulation_steps",
        "train_iters": "num_iterations",
        "max_steps": "num_iterations",
        "dtype": "precision",
        "recompute_granularity": "activation_recompute",
        "recompute_modules": "activation_recompute",
        "gradient_checkpointing": "activation_recompute",
        "activation_checkpointing": "activation_recompute",
        "peft": "adapter",
        "mtp_num_layers": "mtp_layers",
        "seq_length": "model.sequence_length",
        "seq_len": "model.sequence_length",
        "max_seq_length": "model.sequence_length",
    }

    batch_size_per_gpu: PositiveInt = Field(
        description="Samples of a micro-batch on each data-parallel rank; 1 by default with global_batch_size"
    )
    global_batch_size: PositiveInt | None = Field(
        default=None,
        description="Samples of an iteration on all GPUs; gradient_accumulation_steps then follows from the layout",
    )
    num_iterations: PositiveInt = Field(default=10, description="Iterations (optimizer steps)")
    gradient_accumulation_steps: PositiveInt = Field(default=1, description="Micro-batches of an iteration")
    mixed_precision: bool = Field(default=True, description="Compute in bf16 or fp16, with fp32 copies of the weights")
    precision: TrainingPrecision | None = Field(
        default=None, description="Precision of matrix products; by default bf16 where the GPU has it, else fp16"
    )
    optimizer: Literal["adam", "sgd"] = Field(
        default="adam", description="Optimizer: adam has two states per weight, sgd none"
    )
    fused_optimizer: bool = Field(default=True, description="Update the weights in one kernel")
    activation_recompute: ActivationRecompute = Field(
        default="none",
        description="Activations that the backward pass recomputes: a part of each block, all, or those of modules",
    )
    attention: Literal["fused", "flash2", "flash1", "unfused", "eager"] = Field(
        default="fused",
        description="Attention kernels: fused (the best of the GPU), flash2, flash1, unfused, or eager",
    )
    attention_block: PositiveInt = Field(
        default=1, description="Tokens of the blocks that fused attention computes or skips as a whole"
    )
    norms: Literal["fused", "eager"] = Field(
        default="fused", description="Norms as one kernel or one kernel per operation"
    )
    communication_pattern: CommunicationPattern = Field(
        default="auto", description="Algorithm of collectives (docs/explanation/networks.md); auto chooses as NCCL"
    )
    engine: str = Field(
        default="pytorch", description="Engine profile (simsys list engines), such as pytorch or megatron"
    )
    mtp_layers: Annotated[NonNegativeInt, Field(le=100)] = Field(
        default=0, description="Layers that predict further tokens, each with a pass through the head (DeepSeek-V3)"
    )
    adapter: AdapterConfig | None = Field(
        default=None, description="Low-rank adapters that are trained instead of the weights"
    )
    data_parallel: str | None = Field(
        default=None, description="Data-parallel module; by default the module of the strategy"
    )
    options: dict[str, Any] = Field(default_factory=dict, description="Options of the data-parallel module")
    num_nodes: PositiveInt | None = Field(default=None, description="Alias of hardware.num_nodes")
    batch_schedule: list[BatchScheduleEntry] = Field(
        default_factory=list, description="Changes of the batch in the course of the run"
    )
    checkpoint: CheckpointConfig | None = Field(
        default=None, description="Checkpoints: how often, where, and whether training waits"
    )
    data_loading: DataLoadingConfig | None = Field(default=None, description="Time to load data")
    failures: FailuresConfig | None = Field(
        default=None, description="Failures of GPUs, nodes and links over weeks of training"
    )
    target: TargetConfig | None = Field(
        default=None, description="Length of the whole training, for its time, cost and energy"
    )

    @model_validator(mode="wrap")
    @classmethod
    def _micro_batch_of_one(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """With a global batch, the size of a micro-batch may be left out; it then counts as not written."""
        lacks = isinstance(data, Mapping) and "batch_size_per_gpu" not in data
        if not lacks or data.get("global_batch_size") is None:
            return handler(data)
        made = handler({**data, "batch_size_per_gpu": 1})
        made.model_fields_set.discard("batch_size_per_gpu")
        return made

    @model_validator(mode="after")
    def _one_size_of_batch(self) -> Self:
        if self.global_batch_size is not None and self.batch_schedule:
            raise invalid("global_batch_size is for batches of one size; write batch_schedule without it")
        return self

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
