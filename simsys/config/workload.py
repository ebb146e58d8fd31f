"""The request workload of a serving scenario: arrivals, lengths, conversations and tenants of requests.

Each part is a mapping in which ``kind`` names the distribution; a bare number of tokens is a fixed length.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from simsys.config.arrivals import Arrivals, expected_arrivals
from simsys.config.base import invalid
from simsys.config.cancellation import CancellationConfig
from simsys.config.discriminators import Part, PositiveFloat
from simsys.config.images import ImagesConfig
from simsys.config.lengths import Length, Time
from simsys.config.sessions import NO_TIME, ReasoningConfig, SessionsConfig
from simsys.units import NonNegativeSeconds, Seconds

MOST_REQUESTS = 10_000_000
MOST_RELATED_REQUESTS = 2_000_000
"""Limit of requests with conversations, with system prompts, or of a trace that repeats. Unlike others they are drawn
by the check, in some microseconds and 200 bytes each."""
TRACED_PARTS = ("arrivals", "prompt_tokens", "output_tokens")
"""Kinds of arrivals and lengths that a trace may supply."""
RequestCount = Annotated[int, Field(strict=True, ge=1, le=MOST_REQUESTS)]


class TraceConfig(Part):
    """A file of recorded requests.

    `path` is relative to the experiment file's folder. The first `max_requests` requests between `start` and `start` +
    `duration` are used, by the clock of the trace. `rate_scale` 2 replays the timestamps twice as fast; `spread`
    delays each arrival by a random time below this value, for timestamps that were rounded down; `repeat` begins again
    at the end; `multi_turn` replays whole conversations of a trace with texts instead of only their first turns, with
    `think_time` between the end of a turn and the next.
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
    hash_block_size: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] | None = Field(
        default=None, description="Tokens of a block of hash_ids of JSON lines; by default 512, as of Mooncake"
    )

    @model_validator(mode="after")
    def _think_time_has_an_effect(self) -> Self:
        if self.think_time != NO_TIME and not self.multi_turn:
            raise invalid("think_time has no effect unless multi_turn is true")
        return self


class PrefixesConfig(Part):
    """System prompts that requests share: one of `groups` prompts of `tokens` tokens, before the own prompt."""

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
            raise invalid(f"one weight for each group is needed, {self.groups}, not {len(self.weights)}")
        return self


class WorkloadConfig(Part):
    """The requests of a serving scenario, limited by `num_requests`, by `duration` of arrivals, or by both.

    Both may be left out if a part comes from the trace (then all of its requests are used), or with a
    `simulation.duration` (no request arrives later). With a `trace`, which may be just its path, arrivals and lengths
    that are left out come from the trace; arrivals of conversations (`multi_turn`) have to be given. `priorities` and
    `tenants` say how often each occurs; `hash_block_size` is the granularity, in tokens, at which shared prefixes of
    sessions and system prompts are distinguished.
    """

    other_names: ClassVar[Mapping[str, str]] = {
        "num_prompts": "num_requests",
        "request_rate": "arrivals.rate",
        "burstiness": "arrivals.burstiness",
        "max_concurrency": "arrivals.concurrency",
        "input_len": "prompt_tokens",
        "random_input_len": "prompt_tokens",
        "random_output_len": "output_tokens",
        "output_len": "output_tokens",
        "isl": "prompt_tokens",
        "osl": "output_tokens",
        "input_tokens": "prompt_tokens",
        "rate": "arrivals.rate",
        "qps": "arrivals.rate",
        "concurrency": "arrivals.concurrency",
    }

    arrivals: Arrivals = Field(description="Arrival process of requests, or of first turns of conversations")
    prompt_tokens: Length = Field(description="Length of prompts: a number or a distribution")
    output_tokens: Length = Field(description="Length of outputs: a number or a distribution")
    num_requests: RequestCount | None = Field(default=None, description="Number of requests")
    duration: Seconds | None = Field(default=None, description="Time during which requests arrive")
    trace: TraceConfig | None = Field(default=None, description="Recorded requests")
    sessions: SessionsConfig | None = Field(default=None, description="Conversations of several turns")
    reasoning: ReasoningConfig | None = Field(default=None, description="Tokens of thought before each answer")
    prefixes: PrefixesConfig | None = Field(default=None, description="System prompts that requests share")
    images: ImagesConfig | None = Field(
        default=None, description="Images of requests, after the text of their prompts"
    )
    priorities: Annotated[dict[int, PositiveFloat], Field(min_length=1)] | None = Field(
        default=None, description="Relative frequency of each priority"
    )
    tenants: Annotated[dict[str, PositiveFloat], Field(min_length=1)] | None = Field(
        default=None, description="Relative frequency of each tenant"
    )
    cancellation: CancellationConfig | None = Field(
        default=None, description="Time-outs of clients, requests that users cancel, and retries"
    )
    hash_block_size: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = Field(
        default=16, description="Tokens of a block at which shared prefixes are distinguished"
    )

    @model_validator(mode="before")
    @classmethod
    def _from_the_trace(cls, data: Any) -> Any:
        """Read a path as a trace, and let the trace supply the parts that are left out."""
        if not isinstance(data, Mapping) or data.get("trace") is None:
            return data
        trace = {"path": data["trace"]} if isinstance(data["trace"], str) else data["trace"]
        in_turns = trace.get("multi_turn") if isinstance(trace, Mapping) else getattr(trace, "multi_turn", False)
        parts = TRACED_PARTS[1:] if in_turns else TRACED_PARTS
        return {**{name: {"kind": "trace"} for name in parts}, **data, "trace": trace}

    @property
    def traced(self) -> list[str]:
        """Names of the parts that come from the trace."""
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
    def most_requests(self) -> int:
        """The largest number of requests."""
        repeats = self.trace is not None and self.trace.repeat
        related = self.sessions is not None or self.prefixes is not None or repeats
        return MOST_RELATED_REQUESTS if related else MOST_REQUESTS

    @property
    def expected_requests(self) -> float:
        """Expected number of requests, without drawing them; of conversations at least; 0 if it is unknown."""
        if self.num_requests is None:
            return 0.0 if self.duration is None else expected_arrivals(self.arrivals, self.duration)
        if self.duration is None or not (expected := expected_arrivals(self.arrivals, self.duration)):
            return float(self.num_requests)
        return min(float(self.num_requests), expected)

    @property
    def limited_by_time(self) -> bool:
        """Whether a duration determines the number of requests."""
        return self.arrivals.kind not in ("all_at_once", "closed_loop")

    @property
    def missing(self) -> str:
        """Why the number of requests is unknown; empty if it is known."""
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
            raise invalid(f"duration does not limit arrivals of kind {self.arrivals.kind}; give num_requests")
        if (
            self.missing and not self.limited_by_time
        ):  # where a duration is enough, the simulation's duration may supply it
            raise invalid(self.missing)
        return self

    @model_validator(mode="after")
    def _few_enough(self) -> Self:
        if (self.num_requests or 0) > self.most_requests:
            what = "conversations, system prompts or a trace that repeats"
            raise invalid(
                f"num_requests must be at most {self.most_requests:,} with {what}, not {self.num_requests:,}"
            )
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
        if self.reasoning is not None and self.output_tokens.kind == "trace":
            raise invalid("reasoning adds to outputs that are drawn; output_tokens of kind trace are whole already")
        conversations = self.sessions is not None or (self.trace is not None and self.trace.multi_turn)
        if conversations and self.images is not None:
            raise invalid("images in conversations are not modelled; remove the conversations or images")
        if conversations and self.arrivals.kind == "closed_loop":
            raise invalid(
                "conversations are a closed loop already, as each turn waits for the one before; arrivals of kind "
                "all_at_once start all of them, one by each client"
            )
        return self
