"""Parts of `serving`: speculative decoding and adapters."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, PositiveInt, model_validator

from simsys.config.base import FrozenModel, invalid
from simsys.units import NonNegativeSeconds, Seconds

SHORTEST_INTERVAL_S = 1e-3
"""Between looks of the autoscaler."""


class SpeculativeConfig(FrozenModel):
    """Speculative decoding: `draft_tokens` are drafted for each sequence and step, and verified in one pass.

    `acceptance_rate` is the probability that a drafted token is accepted if those before it are. They are drafted by
    `draft_model`, a name of the model DB, by `draft_layers` more layers of the model's own with its head (multi-token
    prediction), or in a time of `draft_cost` a token and step; if none is given, they cost nothing, as n-gram look-up
    nearly does.
    """

    draft_tokens: Annotated[int, Field(strict=True, ge=1, le=64)] = Field(
        description="Tokens that are drafted for each sequence in each step"
    )
    acceptance_rate: Annotated[float, Field(ge=0, le=1)] = Field(
        description="Probability that a drafted token is accepted if those before it are"
    )
    draft_model: str | None = Field(default=None, description="Model of the model DB that drafts")
    draft_layers: Annotated[int, Field(strict=True, ge=1, le=64)] | None = Field(
        default=None, description="Layers of the model's own kind that draft (multi-token prediction)"
    )
    draft_cost: NonNegativeSeconds | None = Field(default=None, description="Time to draft one token in one step")

    @model_validator(mode="after")
    def _one_cost(self) -> Self:
        ways = [name for name in ("draft_model", "draft_layers", "draft_cost") if getattr(self, name) is not None]
        if len(ways) > 1:
            raise invalid(f"tokens are drafted in one way, not by {' and '.join(ways)}; keep one of them")
        return self


class LoraConfig(FrozenModel):
    """Adapters of low rank: how many are served at once, each as often as the others, and their rank."""

    adapters: PositiveInt = Field(description="Number of adapters, equally popular")
    rank: Annotated[PositiveInt, Field(le=4096)] = Field(description="Rank of the adapters")


class DisaggregatedConfig(FrozenModel):
    """Replicas that process prompts and replicas that generate tokens, with the KV caches sent from those to these.

    Each has ``tp_degree`` GPUs a stage, unless `prefill_tp_degree` or `decode_tp_degree` says otherwise; those for
    prompts are the first. `serving.scheduler` and `serving.router` are those of prompts; `decode_scheduler` and
    `decode_router` serve the others.
    """

    prefill_replicas: PositiveInt = Field(description="Replicas that process prompts; they have the first GPUs")
    decode_replicas: PositiveInt = Field(description="Replicas that generate tokens")
    prefill_tp_degree: PositiveInt | None = Field(
        default=None, description="Tensor-parallel degree of prefill replicas; by default parallelism.tp_degree"
    )
    decode_tp_degree: PositiveInt | None = Field(
        default=None, description="Tensor-parallel degree of decode replicas; by default parallelism.tp_degree"
    )
    decode_scheduler: str = Field(default="disaggregated_decode", description="Scheduler module of decode replicas")
    decode_router: str = Field(
        default="least_kv", description="Router module that assigns sequences to decode replicas"
    )

    @property
    def replicas(self) -> int:
        """All of them."""
        return self.prefill_replicas + self.decode_replicas

    def tp_degrees(self, tp_degree: int) -> tuple[int, int]:
        """Tensor-parallel degrees of the two kinds, `tp_degree` where they do not say."""
        return self.prefill_tp_degree or tp_degree, self.decode_tp_degree or tp_degree


class AutoscalingConfig(FrozenModel):
    """Replicas that come and go, at least `min_replicas` and at most `max_replicas`, by default all that there are.

    Every `interval` one more is started if more than `scale_up_queue` requests wait for each that is on or starting;
    it takes requests after `startup`. One that has had no request for `scale_down_idle` is turned off. If waiting and
    running requests together have been at most `scale_down_requests` for each of the others for as long, the one with
    the fewest drains: it gets no more, and is turned off when its last one has ended.
    """

    min_replicas: PositiveInt = Field(default=1, description="Replicas that are always active")
    max_replicas: PositiveInt | None = Field(
        default=None, description="Replicas that are active at most; by default all that the GPUs hold"
    )
    scale_up_queue: Annotated[float, Field(gt=0)] = Field(
        default=10.0, description="Waiting requests per replica above which one more replica starts"
    )
    scale_down_requests: Annotated[float, Field(ge=0)] = Field(
        default=10.0, description="Requests per remaining replica up to which one replica is drained"
    )
    scale_down_idle: NonNegativeSeconds = Field(
        default=60.0, description="Time without need after which a replica is drained or stopped"
    )
    startup: NonNegativeSeconds = Field(
        default=60.0, description="Time from the decision to start a replica until it takes requests"
    )
    interval: Seconds = Field(default=5.0, description="Time between two decisions")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.max_replicas is not None and self.min_replicas > self.max_replicas:
            raise invalid(
                f"min_replicas ({self.min_replicas}) must not exceed max_replicas ({self.max_replicas}); "
                f"write min_replicas: {self.max_replicas} or less"
            )
        if self.interval < SHORTEST_INTERVAL_S:
            raise invalid(f"interval must be at least 1 ms, not {self.interval:g} s, as each look costs an event")
        return self
