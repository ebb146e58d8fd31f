"""The experiment file's `parallelism`: kinds, degrees, and the order of ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, NonNegativeInt, PositiveInt, WithJsonSchema

from simsys.config.base import FrozenModel, invalid
from simsys.errors import did_you_mean
from simsys.model.fields import MAX_LAYERS


def _strategy(value: str) -> str:
    """Refuse a strategy with unknown kinds, or with more than one kind of data parallelism."""
    if value == "None":
        return value
    parts = value.split("_")
    unknown = [part for part in parts if part not in STRATEGY_PARTS]
    for part in unknown:
        if advice := NO_KINDS.get(part.upper().replace("-", "")):
            raise invalid(f"unknown strategy {value!r}: {advice}")
    if unknown:
        known = ["None", *STRATEGY_PARTS, "TP_PP", "TP_PP_DDP"]
        raise invalid(
            f"unknown strategy {value!r}{did_you_mean(value, known)}; parts are joined by '_', as in TP_PP_DDP"
        )
    data = [part for part in parts if part in DATA_STRATEGIES]
    if len(data) > 1 or len(set(parts)) < len(parts):
        raise invalid(f"strategy {value!r} names more than one kind of data parallelism, or one kind twice")
    return value


DATA_STRATEGIES = ("DDP", "ZERO1", "ZERO2", "FSDP", "HSDP")
STRATEGY_PARTS = ("TP", "CP", "EP", "PP", *DATA_STRATEGIES)
NO_KINDS = {
    "DP": "data parallelism is DDP, ZERO1, ZERO2, FSDP or HSDP",
    "MP": "model parallelism is TP, PP or both",
    "SP": "sequence parallelism is not a strategy; write sequence_parallel: true with TP",
    "ZERO3": "ZeRO-3 is FSDP",
}
"""Names of strategies in other programs, with advice on the name to write here."""
AXES = {"tp": "tensor", "cp": "context", "ep": "expert", "dp": "data", "pp": "pipeline"}
"""The axes of a layout by their short names."""
_KIND = f"({'|'.join(STRATEGY_PARTS)})"
Strategy = Annotated[
    str, AfterValidator(_strategy), WithJsonSchema({"type": "string", "pattern": f"^(None|{_KIND}(_{_KIND})*)$"})
]


def _order(value: str) -> str:
    """Refuse an order that does not name tp, dp and pp, and optionally cp and ep, once each."""
    given = value.split("-")
    if not {"tp", "dp", "pp"} <= set(given) <= set(AXES) or len(set(given)) < len(given):
        message = "order names tp, dp and pp, and cp and ep where they matter, once each, as in tp-cp-ep-dp-pp"
        raise invalid(f"{message}, not {value!r}")
    return value


_AXIS = f"({'|'.join(AXES)})"
RankOrder = Annotated[
    str, AfterValidator(_order), WithJsonSchema({"type": "string", "pattern": f"^{_AXIS}(-{_AXIS}){{2,4}}$"})
]


class ParallelismConfig(FrozenModel):
    """Kinds and degrees of parallelism. Without ``dp_degree``, data parallelism uses all remaining GPUs.

    `strategy` joins kinds by underscores: ``TP``, ``CP``, ``EP``, ``PP`` and one of ``DDP``, ``ZERO1``, ``ZERO2``,
    ``FSDP``, ``HSDP``.
    `ep_degree` divides the ranks that hold the same weights (data times context parallelism), as in Megatron-LM.
    `order` says which ranks are neighbours, the fastest varying first, as in Megatron-LM.
    `schedule` is a pipeline schedule: ``1f1b``, ``gpipe``, ``interleaved``, ``zero_bubble``, ``dualpipe``,
    or your own.
    `sequence_parallel` divides norms and dropout, which tensor parallelism leaves whole, by tokens. `tp_overlap` cuts
    the matrix products of tensor parallelism so that communication overlaps with them. `scatter_gather` divides the
    activations that a pipeline stage sends among the tensor-parallel ranks. With `p2p_overlap` a stage computes during
    its sends. With `expert_tp_degree` 1, tensor parallelism leaves experts whole, and `ep_degree` divides them among
    its ranks, too. With `expert_dispatch` ``deepep``, as by DeepEP and HybridEP, a token is sent once to each node of
    its experts, in one node to each GPU. `expert_overlap` hides all-to-alls behind computation, as Megatron-LM's
    ``--overlap-moe-expert-parallel-comm``, `shared_expert_overlap` behind shared experts, as its
    ``--moe-shared-expert-overlap``. `expert_skew` is the load of the busiest expert-parallel rank divided by
    the mean. `expert_capacity_factor` is the capacity of an expert divided by its mean load; further tokens are
    dropped.

    In serving, a replica has `attention_dp` data-parallel ranks of `tp_degree` GPUs, each with its own requests and KV
    cache. Their experts are divided among all GPUs of the replica: among `ep_degree` groups, and within each by tensor
    parallelism. Without `attention_dp`, `ep_degree` is 1 or `tp_degree`.
    """

    other_names: ClassVar[Mapping[str, str]] = {
        "tensor_parallel": "tp_degree",
        "tensor_parallel_size": "tp_degree",
        "tensor_model_parallel_size": "tp_degree",
        "context_parallel_size": "cp_degree",
        "expert_model_parallel_size": "ep_degree",
        "expert_tensor_parallel_size": "expert_tp_degree",
        "overlap_moe_expert_parallel_comm": "expert_overlap",
        "moe_shared_expert_overlap": "shared_expert_overlap",
        "moe_token_dispatcher_type": "expert_dispatch",
        "pipeline_parallel_size": "pp_stages",
        "pipeline_model_parallel_size": "pp_stages",
        "pp_degree": "pp_stages",
        "data_parallel_size": "dp_degree",
        "enable_attention_dp": "attention_dp",
        "enable_dp_attention": "attention_dp",
        "moe_expert_parallel_size": "ep_degree",
        "ep_size": "ep_degree",
        "tp": "tp_degree",
        "tp_size": "tp_degree",
        "tensor_parallel_degree": "tp_degree",
        "pp": "pp_stages",
        "pp_size": "pp_stages",
        "pipeline_parallel_degree": "pp_stages",
        "dp": "dp_degree",
        "dp_size": "dp_degree",
        "data_parallel_shard_degree": "dp_degree",
        "cp": "cp_degree",
        "cp_size": "cp_degree",
        "context_parallel_degree": "cp_degree",
        "ep": "ep_degree",
        "expert_parallel_degree": "ep_degree",
        "zero_stage": "strategy",
        "zero_optimization": "strategy",
    }

    strategy: Strategy | None = Field(
        default=None,
        description="Kinds joined by underscores: TP, CP, EP, PP and one of DDP, ZERO1, ZERO2, FSDP, HSDP",
    )
    tp_degree: PositiveInt = Field(default=1, description="Tensor-parallel degree")
    sequence_parallel: bool = Field(
        default=False, description="Divide norms and dropout by tokens among the tensor-parallel ranks"
    )
    tp_overlap: bool = Field(
        default=False,
        description="Cut matrix products so that the collectives of tensor parallelism overlap with them",
    )
    cp_degree: PositiveInt = Field(default=1, description="Context-parallel degree: ranks that divide each sequence")
    attention_dp: PositiveInt = Field(
        default=1,
        description="Data-parallel ranks of a serving replica that share their experts and step together",
    )
    ep_degree: PositiveInt = Field(
        default=1,
        description="Expert-parallel degree; divides the ranks that hold the same weights",
    )
    expert_tp_degree: PositiveInt | None = Field(
        default=None,
        description="Tensor-parallel degree of routed experts in training: 1 or, by default, tp_degree",
    )
    expert_dispatch: Literal["all_to_all", "deepep"] = Field(
        default="all_to_all",
        description="How training sends tokens: once to each expert, or (deepep) to each node or GPU of its experts",
    )
    expert_overlap: bool = Field(
        default=False, description="Overlap the all-to-alls of experts with the computation of other micro-batches"
    )
    shared_expert_overlap: bool = Field(
        default=False, description="Overlap the all-to-alls of experts with the computation of shared experts"
    )
    expert_skew: Annotated[float, Field(ge=1, le=1e6)] = Field(
        default=1.0, description="Load of the busiest expert-parallel rank, divided by the mean"
    )
    expert_capacity_factor: Annotated[float, Field(gt=0, le=1e6)] | None = Field(
        default=None, description="Most tokens of an expert, divided by the mean; further tokens are dropped"
    )
    pp_stages: PositiveInt = Field(default=1, description="Pipeline stages")
    scatter_gather: bool = Field(
        default=True, description="Divide the activations that a pipeline stage sends among the tensor-parallel ranks"
    )
    p2p_overlap: bool = Field(default=True, description="Overlap sends between pipeline stages with computation")
    dp_degree: PositiveInt | None = Field(
        default=None, description="Data-parallel degree, in serving the replicas; by default all remaining GPUs"
    )
    virtual_stages: Annotated[PositiveInt, Field(le=MAX_LAYERS)] = Field(
        default=1, description="Model chunks of each pipeline stage (interleaved schedules)"
    )
    schedule: str = Field(
        default="1f1b",
        description="Pipeline schedule: 1f1b, gpipe, interleaved, zero_bubble, dualpipe, or a module of your own",
    )
    stage_layers: list[NonNegativeInt] | None = Field(
        default=None,
        description="Layers of each stage; by default equal numbers, or in serving as the engine divides them",
    )
    order: RankOrder = Field(
        default="tp-cp-ep-dp-pp", description="Axes of the ranks, the fastest varying first, as in Megatron-LM"
    )

    @property
    def whole_experts(self) -> bool:
        """Whether tensor parallelism leaves experts whole."""
        return self.expert_tp_degree == 1 < min(self.tp_degree, self.ep_degree)

    @property
    def parts(self) -> frozenset[str]:
        """The kinds of parallelism that the strategy names."""
        named = frozenset((self.strategy or "").split("_"))
        return named - {"", "None"}

    @property
    def shards(self) -> int:
        """Number of ranks that work on one set of samples; in serving, of a replica."""
        return self.tp_degree * self.cp_degree * self.pp_stages * self.attention_dp

    @property
    def axes(self) -> tuple[str, ...]:
        """The order of ranks as axis names of a layout; context follows tensor if it is not named."""
        axes = [AXES[short] for short in self.order.split("-")]
        if "context" not in axes:
            axes.insert(axes.index("tensor") + 1, "context")
        return tuple(axes)
