"""The experiment file's `search`: what `simsys search` optimises, under which conditions, over which settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from simsys.config.base import FrozenModel, invalid
from simsys.units import Dimension, Quantity

KV_HEADROOM = 0.1
"""Default of `SearchConfig.kv_headroom`. Choices among measured deployments lose as much for any from 5 to 20 %
(docs/explanation/decisions-measurements.md)."""
Values = Literal["auto"] | Annotated[list[Any], Field(min_length=1)]


class SearchConfig(FrozenModel):
    """The question that ``simsys search`` answers: the best layout of a training job, or deployment for serving.

    `over` names the settings that vary, as dotted paths with lists of values, or ``auto`` for all useful values. With
    ``over: auto``, every setting of the layout or deployment varies that the scenario does not write; so does
    ``others: auto`` beside named settings. The latency targets of serving are the scenario's ``slo``.
    """

    other_names: ClassVar[Mapping[str, str]] = {
        "objective": "minimize",
        "constraints": "subject_to",
        "where": "subject_to",
        "space": "over",
    }

    minimize: str | None = Field(
        default=None,
        description="Metric to minimize; by default steady_iteration_s, in serving usd_per_million_tokens",
    )
    maximize: str | None = Field(
        default=None, description="Metric to maximize, such as tokens_per_s, or goodput in serving"
    )
    subject_to: list[str] = Field(
        default_factory=list, description="Conditions on metrics, such as peak_memory_share <= 0.92"
    )
    over: Literal["auto"] | Annotated[dict[str, Values], Field(min_length=1)] = Field(
        default="auto",
        description="Settings that vary: auto for all of them, or dotted paths with values or auto",
    )
    kv_headroom: Annotated[float, Quantity(Dimension.FRACTION, zero=True)] = Field(
        default=KV_HEADROOM,
        description="Share of the KV cache that is free at the fullest moment of a serving run that meets an SLO of "
        "TTFT or E2E latency; 0 for none",
    )

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.minimize is not None and self.maximize is not None:
            raise invalid("a search has one goal; write minimize or maximize, and --pareto A B for two metrics")
        if self.kv_headroom >= 1.0:
            raise invalid("kv_headroom is the free share of the KV cache, which has to be below 100 %")
        return self
