"""Parts of `serving`: speculative decoding and adapters."""

from __future__ import annotations

import math
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, PositiveInt, model_validator

from simsys.config.base import FrozenModel, invalid
from simsys.config.parallelism import ParallelismConfig
from simsys.units import NonNegativeSeconds, Seconds

POOL_DEGREES = ("tp_degree", "attention_dp", "ep_degree")
"""Degrees of parallelism that prefill and decode replicas may have of their own."""

ACCEPTANCE = ("acceptance_rate", "acceptance_length", "acceptance_of")
"""Settings that say how many drafted tokens are accepted."""
Rate = Annotated[float, Field(ge=0, le=1)]

SHORTEST_INTERVAL_S = 1e-3
"""Shortest time between two decisions of the autoscaler."""


class ApiServerConfig(FrozenModel):
    """Processes before the engine that parse and tokenise requests, one request at a time each.

    They bound the rate of requests, and requests wait for them; `serving.api_overhead` is a time in addition, in which
    requests do not wait for each other. In vLLM, `count` is ``--api-server-count``, in SGLang
    ``--tokenizer-worker-num``.
    """

    count: PositiveInt = Field(default=1, description="Number of processes")
    per_request: NonNegativeSeconds = Field(default=0.0, description="Time of a process for a request")
    per_prompt_token: NonNegativeSeconds = Field(
        default=0.0, description="Further time of a process for each token of the prompt"
    )

    @model_validator(mode="after")
    def _takes_time(self) -> Self:
        if not self.per_request and not self.per_prompt_token:
            raise invalid("a server that needs no time has no effect; write per_request or per_prompt_token")
        return self


class SpeculativeConfig(FrozenModel):
    """Speculative decoding: `draft_tokens` are drafted for each sequence and step, and verified in one pass.

    `acceptance_rate` is the probability that a drafted token is accepted if all earlier ones are: one number, or one
    for each place of the draft. In its place, `acceptance_length` is the mean number of tokens per verification, the
    model's own token included, and `acceptance_of` names measured lengths of the model DB. Tokens are drafted
    by `draft_model` (a name of the model DB), by `draft_layers` additional layers of the model itself with its head
    (multi-token prediction), or in `draft_cost` of time per token and step. If none is given, drafting costs nothing,
    which approximates n-gram look-up.
    """

    draft_tokens: Annotated[int, Field(strict=True, ge=1, le=64)] = Field(
        description="Tokens that are drafted for each sequence in each step"
    )
    acceptance_rate: Rate | tuple[Rate, ...] | None = Field(
        default=None,
        description="Probability that a drafted token is accepted if all earlier ones are; one, or one for each place",
    )
    acceptance_length: Annotated[float, Field(ge=1, le=65)] | None = Field(
        default=None, description="Mean tokens per verification, the model's own one included, in place of a rate"
    )
    acceptance_of: str | None = Field(
        default=None,
        min_length=1,
        description="Measured lengths of the model DB (acceptance_lengths.csv), such as glm-5.2-fp8 MTP thinking",
    )
    draft_model: str | None = Field(default=None, description="Model of the model DB that drafts")
    draft_layers: Annotated[int, Field(strict=True, ge=1, le=64)] | None = Field(
        default=None, description="Additional layers of the model that draft (multi-token prediction)"
    )
    draft_cost: NonNegativeSeconds | None = Field(default=None, description="Time to draft one token in one step")

    @model_validator(mode="after")
    def _one_cost(self) -> Self:
        ways = [name for name in ("draft_model", "draft_layers", "draft_cost") if getattr(self, name) is not None]
        if len(ways) > 1:
            raise invalid(f"tokens are drafted in one way, not by {' and '.join(ways)}; keep one of them")
        return self

    @model_validator(mode="after")
    def _one_acceptance(self) -> Self:
        given = [name for name in ACCEPTANCE if getattr(self, name) is not None]
        if len(given) != 1:
            raise invalid(f"acceptance is given in one way: {', '.join(ACCEPTANCE)}; here are {len(given)}")
        if isinstance(self.acceptance_rate, tuple) and len(self.acceptance_rate) != self.draft_tokens:
            raise invalid(f"{len(self.acceptance_rate)} rates for {self.draft_tokens} draft_tokens; give one for each")
        if self.acceptance_length is not None and self.acceptance_length > self.draft_tokens + 1:
            raise invalid(f"at most {self.draft_tokens + 1} tokens per verification with {self.draft_tokens} drafted")
        return self


class LoraConfig(FrozenModel):
    """LoRA adapters: their number and their rank; requests use all of them equally often."""

    adapters: PositiveInt = Field(description="Number of adapters, equally popular")
    rank: Annotated[PositiveInt, Field(le=4096)] = Field(description="Rank of the adapters")


class PoolDegrees(NamedTuple):
    """Parallelism of the replicas of one kind in disaggregated serving."""

    name: str
    """``prefill`` or ``decode``."""
    replicas: int
    tp_degree: int
    attention_dp: int
    ep_degree: int

    @property
    def gpus(self) -> int:
        """GPUs of a stage of one replica."""
        return self.tp_degree * self.attention_dp


DEFAULT_DECODE_ROUTER = "least_outstanding"


class DisaggregatedConfig(FrozenModel):
    """Separate prefill and decode replicas; KV caches are sent from prefill to decode replicas.

    Each has the ``tp_degree``, ``attention_dp`` and ``ep_degree`` of `parallelism`, unless a degree of its kind is
    given, such as `prefill_tp_degree` or `decode_ep_degree`. Prefill replicas have the first GPUs; decode replicas
    begin where none of them spans more nodes than it needs, so that GPUs between them may stay idle.
    `serving.scheduler` and `serving.router` apply to prefill replicas; `decode_scheduler` and `decode_router` to
    decode replicas.
    """

    prefill_replicas: PositiveInt = Field(description="Replicas that process prompts; they have the first GPUs")
    decode_replicas: PositiveInt = Field(description="Replicas that generate tokens")
    prefill_tp_degree: PositiveInt | None = Field(
        default=None, description="Tensor-parallel degree of prefill replicas; by default parallelism.tp_degree"
    )
    decode_tp_degree: PositiveInt | None = Field(
        default=None, description="Tensor-parallel degree of decode replicas; by default parallelism.tp_degree"
    )
    prefill_attention_dp: PositiveInt | None = Field(
        default=None, description="Data-parallel ranks of a prefill replica; by default parallelism.attention_dp"
    )
    decode_attention_dp: PositiveInt | None = Field(
        default=None, description="Data-parallel ranks of a decode replica; by default parallelism.attention_dp"
    )
    prefill_ep_degree: PositiveInt | None = Field(
        default=None, description="Expert-parallel degree of prefill replicas; by default parallelism.ep_degree"
    )
    decode_ep_degree: PositiveInt | None = Field(
        default=None, description="Expert-parallel degree of decode replicas; by default parallelism.ep_degree"
    )
    first_token: Literal["prefill", "decode"] = Field(
        default="prefill",
        description="Replica that answers with the first token: at once, or where it decodes, with its cache",
    )
    transfer: Literal["after_prefill", "layerwise"] = Field(
        default="after_prefill",
        description="Send a KV cache when its prompt is complete, or each layer of a chunk when it is computed",
    )
    decode_prefix_caching: bool = Field(
        default=False,
        description="Decode replicas keep the caches of requests that have ended, and fetch only what they lack",
    )
    decode_scheduler: str = Field(default="disaggregated_decode", description="Scheduler module of decode replicas")
    decode_router: str = Field(
        default=DEFAULT_DECODE_ROUTER, description="Router module that assigns sequences to decode replicas"
    )

    @property
    def replicas(self) -> int:
        """Number of prefill and decode replicas."""
        return self.prefill_replicas + self.decode_replicas

    def tp_degrees(self, tp_degree: int) -> tuple[int, int]:
        """Tensor-parallel degrees of prefill and decode replicas; `tp_degree` where none is given."""
        return self.prefill_tp_degree or tp_degree, self.decode_tp_degree or tp_degree

    def pools(self, given: ParallelismConfig) -> tuple[PoolDegrees, PoolDegrees]:
        """Parallelism of prefill and decode replicas; the degrees of `parallelism` where no own ones are given."""

        def pool(name: str) -> PoolDegrees:
            own = {key: getattr(self, f"{name}_{key}") or getattr(given, key) for key in POOL_DEGREES}
            return PoolDegrees(name, getattr(self, f"{name}_replicas"), **own)

        return pool("prefill"), pool("decode")

    def first_decode_gpu(self, given: ParallelismConfig, gpus_per_node: int) -> int:
        """Return the number of the first GPU of decode replicas, which span no more nodes than they need.

        Args:
            given: The degrees where the replicas have no own ones.
            gpus_per_node: GPUs of a node.

        Example:
            >>> split = DisaggregatedConfig(prefill_replicas=1, decode_replicas=1, prefill_tp_degree=4)
            >>> split.first_decode_gpu(ParallelismConfig(tp_degree=8), gpus_per_node=8)
            8
        """
        prefill, decode = self.pools(given)
        taken = prefill.replicas * prefill.gpus * given.pp_stages
        step = math.gcd(decode.gpus, gpus_per_node)
        fills = step in (decode.gpus, gpus_per_node)
        return -(-taken // step) * step if fills else taken

    @property
    def own_degrees(self) -> bool:
        """Whether the replicas of one kind have degrees of their own."""
        return any(
            getattr(self, f"{kind}_{key}") is not None for kind in ("prefill", "decode") for key in POOL_DEGREES
        )


class AutoscalingConfig(FrozenModel):
    """Autoscaling between `min_replicas` and `max_replicas` replicas; by default up to all that the GPUs hold.

    Every `interval` one replica is started if more than `scale_up_queue` requests wait per active or starting replica;
    it receives requests after `startup`. A replica without requests for `scale_down_idle` is stopped. If, for the same
    time, waiting and running requests were at most `scale_down_requests` per remaining replica, the replica with the
    fewest requests is drained: it receives no new requests, and is stopped after its last one.
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
        default=60.0, description="Time from the decision to start a replica until it accepts requests"
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
            raise invalid(f"interval must be at least 1 ms, not {self.interval:g} s, as each decision costs an event")
        return self
