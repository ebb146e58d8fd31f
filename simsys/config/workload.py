"""The request workload of a serving scenario: when requests arrive, how long they are, and whose they are.

Each part is a mapping whose ``kind`` says which distribution it is; a bare number of tokens is a fixed length.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from simsys.config.arrivals import Arrivals
from simsys.config.base import invalid
from simsys.config.discriminators import Part, PositiveFloat
from simsys.config.lengths import FixedTime, Length, Time
from simsys.units import NonNegativeSeconds, Seconds

MOST_REQUESTS = 10_000_000
NO_TIME = FixedTime.model_validate({"time": "0 s"})
TRACED_PARTS = ("arrivals", "prompt_tokens", "output_tokens")
"""What a trace may hold."""
RequestCount = Annotated[int, Field(strict=True, ge=1, le=MOST_REQUESTS)]


class TraceConfig(Part):
    """A file of recorded requests.

    `path` is relative to the experiment file's folder. Of the requests from `start` on, for `duration`, both by the
    clock of the trace, the first `max_requests` are used. `rate_scale` 2 replays the timestamps twice as fast;
    `spread` delays each arrival at random, by less than that, for timestamps that were rounded down to whole seconds
    or more; `repeat` begins again at the end; `multi_turn` plays whole conversations of a trace that holds texts, each
    turn `think_time` after the end of the one before, not only their first turn.
    """

    path: Annotated[str, Field(min_length=1)] = Field(description="File of the trace, relative to the experiment file")
    max_requests: RequestCount | None = Field(default=None, description="Use the first requests only")
    rate_scale: PositiveFloat = Field(default=1.0, description="Speed of replay; 2 halves the times between requests")
    start: NonNegativeSeconds = Field(
        default=0.0, description="Time of the trace at which the first used request lies"
    )
    duration: Seconds | None = Field(default=None, description="Span of the trace that is used")
    spread: NonNegativeSeconds = Field(
        default=0.0, description="Delay each arrival at random by less than this, for rounded timestamps"
    )
    repeat: bool = Field(default=False, description="Begin again at the end of the trace")
    multi_turn: bool = Field(default=False, description="Replay whole conversations, not only their first turns")
    think_time: Time = Field(default=NO_TIME, description="Time from an answer to the next turn of its conversation")

    @model_validator(mode="after")
    def _think_time_has_an_effect(self) -> Self:
        if self.think_time != NO_TIME and not self.multi_turn:
            raise invalid("think_time has no effect unless multi_turn is true")
        return self


class SessionsConfig(Part):
    """Conversations: each of some `turns` sends the whole history and new prompt tokens, `think_time` after an answer.

    Arrivals are those of first turns; requests are counted turn by turn.
    """

    turns: Length = Field(description="Turns of a conversation")
    think_time: Time = Field(default=NO_TIME, description="Time from an answer to the next turn")

    @model_validator(mode="after")
    def _drawn(self) -> Self:
        if self.turns.kind == "trace":
            raise invalid("turns cannot come from a trace; a trace of conversations has its own with multi_turn: true")
        return self


class PrefixesConfig(Part):
    """System prompts that requests share: one of some `groups`, of some `tokens` each, before the prompt's own."""

    groups: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = Field(
        default=1, description="Number of different system prompts"
    )
    tokens: Length = Field(description="Tokens of a system prompt")
    weights: list[PositiveFloat] | None = Field(default=None, description="Relative frequency of each system prompt")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.tokens.kind == "trace":
            raise invalid("tokens cannot come from a trace; give a number or a distribution")
        if self.weights is not None and len(self.weights) != self.groups:
            raise invalid(f"as many weights as groups are needed, {self.groups}, not {len(self.weights)}")
        return self


class WorkloadConfig(Part):
    """The requests of a serving scenario: `num_requests`, or those that arrive within `duration`, or what comes first.

    Both may be left out where a part comes from the trace, all of whose requests are then used, and with a
    `simulation.duration`, after which none arrives. With a `trace`, which may be just its path, arrivals and lengths
    that are left out are those of the trace; arrivals of conversations (`multi_turn`) have to be given. `priorities`
    and `tenants` say how often each occurs; `hash_block_size` is the granularity, in tokens, at which shared prefixes
    of sessions and system prompts are distinguished.
    """

    other_names: ClassVar[Mapping[str, str]] = {
        "num_prompts": "num_requests",
        "request_rate": "arrivals.rate",
        "burstiness": "arrivals.burstiness",
        "max_concurrency": "arrivals.concurrency",
        "input_len": "prompt_tokens",
        "random_input_len": "prompt_tokens",
        "random_output_len": "output_tokens",
    }

    arrivals: Arrivals = Field(description="Arrival process of requests, or of first turns of conversations")
    prompt_tokens: Length = Field(description="Length of prompts: a number or a distribution")
    output_tokens: Length = Field(description="Length of outputs: a number or a distribution")
    num_requests: RequestCount | None = Field(default=None, description="Number of requests")
    duration: Seconds | None = Field(default=None, description="Time during which requests arrive")
    trace: TraceConfig | None = Field(default=None, description="Recorded requests")
    sessions: SessionsConfig | None = Field(default=None, description="Conversations of several turns")
    prefixes: PrefixesConfig | None = Field(default=None, description="System prompts that requests share")
    priorities: Annotated[dict[int, PositiveFloat], Field(min_length=1)] | None = Field(
        default=None, description="Relative frequency of each priority"
    )
    tenants: Annotated[dict[str, PositiveFloat], Field(min_length=1)] | None = Field(
        default=None, description="Relative frequency of each tenant"
    )
    hash_block_size: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = Field(
        default=16, description="Tokens of a block at which shared prefixes are distinguished"
    )

    @model_validator(mode="before")
    @classmethod
    def _from_the_trace(cls, data: Any) -> Any:
        """A path is a trace, and the trace has what is left out."""
        if not isinstance(data, Mapping) or data.get("trace") is None:
            return data
        trace = {"path": data["trace"]} if isinstance(data["trace"], str) else data["trace"]
        in_turns = trace.get("multi_turn") if isinstance(trace, Mapping) else getattr(trace, "multi_turn", False)
        parts = TRACED_PARTS[1:] if in_turns else TRACED_PARTS
        return {**{name: {"kind": "trace"} for name in parts}, **data, "trace": trace}

    @property
    def traced(self) -> list[str]:
        """Which parts come from the trace."""
        return [name for name in TRACED_PARTS if getattr(self, name).kind == "trace"]

    @model_validator(mode="after")
    def _trace_where_needed(self) -> Self:
        traced = self.traced
        if traced and self.trace is None:
            raise invalid(f"{' and '.join(traced)} of kind trace need a trace, e.g. trace: {{path: requests.csv}}")
        if not traced and self.trace is not None:
            raise invalid("trace is given, but no part uses it: give arrivals or a length {kind: trace}")
        return self

    @property
    def limited_by_time(self) -> bool:
        """Whether a duration says how many requests there are."""
        return self.arrivals.kind not in ("all_at_once", "closed_loop")

    @property
    def missing(self) -> str:
        """Why the number of requests is not known; empty if it is."""
        if self.num_requests is not None or self.duration is not None:
            return ""
        if not self.traced:
            what = "num_requests is missing; only a trace knows its own number of requests"
            more = "; with a simulation.duration, give more than can be sent until then"
            return what + (", and a duration limits it" if self.limited_by_time else more)
        if self.trace is not None and self.trace.repeat:
            return "a trace that repeats never ends: give num_requests or duration"
        return ""

    @model_validator(mode="after")
    def _number_is_known(self) -> Self:
        if self.duration is not None and not self.limited_by_time:
            raise invalid(f"duration says nothing of arrivals of kind {self.arrivals.kind}; give num_requests")
        if self.missing and not self.limited_by_time:  # if a duration would do, that of the simulation may
            raise invalid(self.missing)
        return self

    @model_validator(mode="after")
    def _trace_settings_fit(self) -> Self:
        if self.trace is None:
            return self
        for name, given in (("rate_scale", self.trace.rate_scale != 1), ("spread", self.trace.spread > 0)):
            if given and self.arrivals.kind != "trace":
                raise invalid(f"trace.{name} has no effect unless the arrivals are of kind trace")
        limit = self.trace.max_requests
        if limit is not None and self.num_requests is not None and self.num_requests > limit and not self.trace.repeat:
            raise invalid(f"num_requests ({self.num_requests}) exceeds trace.max_requests ({limit})")
        if self.trace.multi_turn and self.traced != ["prompt_tokens", "output_tokens"]:
            raise invalid("trace.multi_turn needs prompt_tokens and output_tokens of kind trace, and other arrivals")
        return self

    @model_validator(mode="after")
    def _conversations_fit(self) -> Self:
        for name in ("sessions", "prefixes"):
            if getattr(self, name) is not None and self.prompt_tokens.kind == "trace":
                raise invalid(f"{name} add to prompts that are drawn; prompt_tokens of kind trace are whole already")
        conversations = self.sessions is not None or (self.trace is not None and self.trace.multi_turn)
        if conversations and self.arrivals.kind == "closed_loop":
            raise invalid(
                "conversations are a closed loop already, as each turn waits for the one before; arrivals of kind "
                "all_at_once start all of them, one by each client"
            )
        return self
