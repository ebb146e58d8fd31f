"""Part of `serving`: how tokens reach the experts of a mixture, and how evenly these are used."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from simsys.config.base import FrozenModel, invalid

Dispatch = Literal["all_gather", "all_to_all", "deepep_high_throughput", "deepep_low_latency"]


class ExpertsConfig(FrozenModel):
    """Routed experts of a replica with ``parallelism.attention_dp`` or ``ep_degree``.

    With `dispatch` ``all_gather``, all GPUs receive all tokens, and results are reduced and scattered, as in vLLM's
    ``allgather_reducescatter`` and in SGLang and TensorRT-LLM without all-to-all backend. With ``all_to_all``, tokens
    are sent to their experts by NCCL, otherwise by the kernels of DeepEP.

    The load of the busiest rank follows from `popularity_exponent` (Zipf: 0 for equal shares) or measured `counts` by
    expert; ``parallelism.expert_skew`` states it instead. `eplb` places experts by their load, with
    `redundant_experts` more replicas of the most popular ones. Every `rebalance_steps` steps all experts move once.
    """

    dispatch: Dispatch = Field(
        default="all_gather", description="How tokens reach their experts, and results come back"
    )
    decode_dispatch: Dispatch | None = Field(
        default=None, description="The same on decode replicas of disaggregated serving; by default as `dispatch`"
    )
    dispatch_precision: Literal["bf16", "fp8", "fp4"] = Field(
        default="bf16", description="Precision of tokens on their way to experts; results come back in 16 bit"
    )
    popularity_exponent: Annotated[float, Field(ge=0, le=10)] | None = Field(
        default=None, description="Exponent of the Zipf distribution of tokens over experts; 0 for equal shares"
    )
    counts: list[Annotated[float, Field(ge=0)]] | None = Field(
        default=None, description="Measured tokens by expert, in the order of the experts"
    )
    eplb: bool = Field(default=False, description="Place experts by their load (expert-parallel load balancer)")
    redundant_experts: NonNegativeInt = Field(
        default=0, description="Additional replicas of experts on all ranks together"
    )
    rebalance_steps: PositiveInt | None = Field(
        default=None, description="Steps between two placements of the experts, which move all of them once"
    )
    two_batch_overlap: bool = Field(
        default=False, description="Halve each batch; one half computes while the other one communicates"
    )
    shared_experts: Literal["in_turn", "overlapped"] = Field(
        default="in_turn", description="Compute shared experts before tokens are sent, or meanwhile"
    )

    padded_rows: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=1,
        description="Rows of which products compute multiples for each expert, as DeepGEMM's contiguous layout (128) "
        "in vLLM 0.12; 1 without padding",
    )
    identical_sequences: PositiveInt = Field(
        default=1,
        description="Sequences of a batch that repeat one prompt and, decoded greedily, one answer, so that they use "
        "the same experts at the same time; 1 if requests differ",
    )

    @model_validator(mode="after")
    def _one_popularity(self) -> Self:
        if self.popularity_exponent is not None and self.counts is not None:
            raise invalid("popularity_exponent and counts both say how popular experts are; keep one of them")
        if not self.eplb and (self.redundant_experts or self.rebalance_steps is not None):
            raise invalid("redundant_experts and rebalance_steps are settings of the balancer; write eplb: true")
        if self.counts is not None and not any(self.counts):
            raise invalid("counts are all 0, so no expert has tokens")
        if self.two_batch_overlap and self.shared_experts == "overlapped":
            raise invalid("with two_batch_overlap the other half hides the exchange; remove shared_experts")
        return self

    @property
    def weighted(self) -> bool:
        """Whether the popularity of experts is given."""
        return self.popularity_exponent is not None or self.counts is not None
