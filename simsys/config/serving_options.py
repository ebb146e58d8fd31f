"""Parts of `serving`: speculative decoding and adapters."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, PositiveInt, model_validator

from simsys.config.base import FrozenModel, invalid
from simsys.units import NonNegativeSeconds


class SpeculativeConfig(FrozenModel):
    """Speculative decoding: `draft_tokens` are drafted for each sequence and step, and verified in one pass.

    `acceptance_rate` is the probability that a drafted token is accepted if those before it are. They are drafted by
    `draft_model`, a name of the model DB, or in a time of `draft_cost` a token and step; if neither is given, they
    cost nothing, as n-gram look-up nearly does.
    """

    draft_tokens: Annotated[int, Field(strict=True, ge=1, le=64)]
    acceptance_rate: Annotated[float, Field(ge=0, le=1)]
    draft_model: str | None = None
    draft_cost: NonNegativeSeconds | None = None

    @model_validator(mode="after")
    def _one_cost(self) -> Self:
        if self.draft_model is not None and self.draft_cost is not None:
            raise invalid("tokens are drafted by draft_model or at draft_cost, not both; remove one of them")
        return self


class LoraConfig(FrozenModel):
    """Adapters of low rank: how many are served at once, each as often as the others, and their rank."""

    adapters: PositiveInt
    rank: Annotated[PositiveInt, Field(le=4096)]
