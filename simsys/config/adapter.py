"""The experiment file's `training.adapter`: low-rank adapters that are trained instead of the weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from simsys.config.base import FrozenModel


class AdapterConfig(FrozenModel):
    """Adapters of linear layers; all other weights are frozen (LoRA), and linear layers stored in 4 bit (QLoRA).

    Names are those of PEFT's ``LoraConfig`` and of NeMo's ``LoRA``. `target_modules` are modules of transformers, such
    as ``q_proj`` and ``down_proj``, or of Megatron Core (``linear_qkv``, ``linear_proj``, ``linear_fc1``,
    ``linear_fc2``), or ``all-linear``. Routed experts have no adapters.
    """

    other_names: ClassVar[Mapping[str, str]] = {
        "r": "rank",
        "dim": "rank",
        "adapter_dim": "rank",
        "lora_alpha": "alpha",
        "lora_dropout": "dropout",
    }

    kind: Literal["lora", "qlora"] = Field(default="lora", description="lora, or qlora: frozen weights in 4 bit")
    rank: Annotated[PositiveInt, Field(le=4096)] = Field(default=16, description="Rank of the adapters")
    alpha: PositiveFloat = Field(default=32.0, description="Scale of the adapters, which has no effect on times")
    dropout: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.0, description="Share of the adapters' inputs that training drops"
    )
    target_modules: Annotated[tuple[str, ...], Field(min_length=1)] = Field(
        default=("all-linear",), description="Modules with adapters, or all-linear"
    )
