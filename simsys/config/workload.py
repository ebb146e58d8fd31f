"""The request workload of a serving scenario: when requests arrive, and how long they are.

Each part is a mapping whose ``kind`` says which distribution it is; a bare number of tokens is a fixed length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, Self, TypeAlias, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from simsys.config.base import invalid
from simsys.errors import did_you_mean
from simsys.units import RequestsPerSecond

# The upper bounds are far beyond any real workload: they turn a slip of the keyboard into a message.
Tokens = Annotated[int, Field(strict=True, ge=1, le=1_000_000_000)]
RequestCount = Annotated[int, Field(strict=True, ge=1, le=10_000_000)]
PositiveFloat = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PoissonArrivals(_Part):
    """Independent arrivals at a mean rate: exponentially distributed gaps."""

    kind: Literal["poisson"] = "poisson"
    rate: RequestsPerSecond


class GammaArrivals(_Part):
    """Gamma distributed gaps; `burstiness` is the shape: 1 is Poisson, less is burstier, more is steadier."""

    kind: Literal["gamma"] = "gamma"
    rate: RequestsPerSecond
    burstiness: Annotated[PositiveFloat, Field(ge=0.001)]  # gaps vary by 32 times their mean at 0.001


class ConstantArrivals(_Part):
    """Evenly spaced arrivals, the first at 0."""

    kind: Literal["constant"] = "constant"
    rate: RequestsPerSecond


class AllAtOnceArrivals(_Part):
    """Every request at time 0: an offline batch."""

    kind: Literal["all_at_once"] = "all_at_once"


class TraceArrivals(_Part):
    """The timestamps of the workload's trace, counted from its first row."""

    kind: Literal["trace"] = "trace"


class FixedLength(_Part):
    """The same number of tokens for every request."""

    kind: Literal["fixed"] = "fixed"
    tokens: Tokens


class UniformLength(_Part):
    """Equally likely anywhere from `low` to `high` tokens, both included."""

    kind: Literal["uniform"] = "uniform"
    low: Tokens
    high: Tokens

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low > self.high:
            raise invalid(f"low ({self.low}) must not exceed high ({self.high})")
        return self


class _BoundedLength(_Part):
    """A continuous distribution, rounded and clamped into [min, max] tokens; `mean` is the mean before clamping."""

    mean: PositiveFloat
    min: Tokens = 1
    max: Tokens = 1_000_000

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.min <= self.mean <= self.max:
            raise invalid(f"min <= mean <= max must hold, not {self.min} <= {self.mean:g} <= {self.max}")
        return self


class NormalLength(_BoundedLength):
    """Normally distributed lengths with standard deviation `std`, in tokens."""

    kind: Literal["normal"] = "normal"
    std: PositiveFloat


class LognormalLength(_BoundedLength):
    """Log-normally distributed lengths; `sigma` is the standard deviation of the logarithm."""

    kind: Literal["lognormal"] = "lognormal"
    # Below 10 the median, mean · exp(-sigma² / 2), is still a number; real traffic has 0.5 to 1.5.
    sigma: Annotated[PositiveFloat, Field(le=10)] = 0.8


class TraceLength(_Part):
    """The lengths in the workload's trace, row by row."""

    kind: Literal["trace"] = "trace"


_AnyArrivals: TypeAlias = PoissonArrivals | GammaArrivals | ConstantArrivals | AllAtOnceArrivals | TraceArrivals
_AnyLength: TypeAlias = FixedLength | UniformLength | NormalLength | LognormalLength | TraceLength


def _known_kind(noun: str, expected: str, union: Any) -> Callable[[Any], Any]:
    """Make a check that says what may stand here, in plainer words than a tagged union's own errors."""
    kinds = [part.model_fields["kind"].default for part in get_args(union)]

    def check(value: Any) -> Any:
        if isinstance(value, BaseModel):
            return value
        if not isinstance(value, dict) or "kind" not in value:
            raise invalid(f"{expected} is expected here")
        if value["kind"] not in kinds:
            raise invalid(f"unknown kind {value['kind']!r} of {noun}{did_you_mean(value['kind'], kinds)}")
        return value

    return check


def _bare_number(value: Any) -> Any:
    return {"kind": "fixed", "tokens": value} if isinstance(value, int | float) else value


_A_MAPPING = "a mapping with a kind, such as {kind: poisson, rate: 8 req/s},"
_A_LENGTH = "a number of tokens, or a mapping with a kind, such as {kind: lognormal, mean: 512},"

Arrivals = Annotated[
    _AnyArrivals, Field(discriminator="kind"), BeforeValidator(_known_kind("arrivals", _A_MAPPING, _AnyArrivals))
]
Length = Annotated[
    _AnyLength,
    Field(discriminator="kind"),
    BeforeValidator(_known_kind("length", _A_LENGTH, _AnyLength)),
    BeforeValidator(_bare_number),
]


class TraceConfig(_Part):
    """A file of recorded requests.

    `path` is relative to the experiment file's folder; `max_requests` reads only that many from the start;
    `rate_scale` 2 replays the timestamps twice as fast.
    """

    path: Annotated[str, Field(min_length=1)]
    max_requests: RequestCount | None = None
    rate_scale: PositiveFloat = 1.0


class WorkloadConfig(_Part):
    """The requests of a serving scenario.

    `num_requests` may be left out where a part comes from the trace: all of the trace's requests are then used.
    """

    arrivals: Arrivals
    prompt_tokens: Length
    output_tokens: Length
    num_requests: RequestCount | None = None
    trace: TraceConfig | None = None

    @model_validator(mode="after")
    def _trace_where_needed(self) -> Self:
        parts = {"arrivals": self.arrivals, "prompt_tokens": self.prompt_tokens, "output_tokens": self.output_tokens}
        traced = [name for name, part in parts.items() if part.kind == "trace"]
        if traced and self.trace is None:
            raise invalid(f"{' and '.join(traced)} of kind trace need a trace, e.g. trace: {{path: requests.csv}}")
        if not traced and self.trace is not None:
            raise invalid("trace is given, but no part uses it: give arrivals or a length {kind: trace}")
        if not traced and self.num_requests is None:
            raise invalid("num_requests is missing; only a trace knows its own number of requests")
        return self

    @model_validator(mode="after")
    def _trace_settings_fit(self) -> Self:
        if self.trace is None:
            return self
        if self.trace.rate_scale != 1 and self.arrivals.kind != "trace":
            raise invalid("trace.rate_scale has no effect unless the arrivals are of kind trace")
        limit = self.trace.max_requests
        if limit is not None and self.num_requests is not None and self.num_requests > limit:
            raise invalid(f"num_requests ({self.num_requests}) exceeds trace.max_requests ({limit})")
        return self
