"""Settings of the experiment file for lengths of prompts and outputs, and for think times of users.

A bare number of tokens is a fixed length.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from simsys.config.base import invalid
from simsys.config.discriminators import Part, PositiveFloat, known_kind
from simsys.units import NonNegativeSeconds, Seconds

# The upper bounds are far beyond any real workload: they turn a slip of the keyboard into a message.
Tokens = Annotated[int, Field(strict=True, ge=1, le=1_000_000_000)]


class FixedLength(Part):
    """A fixed number of tokens for every request."""

    kind: Literal["fixed"] = "fixed"
    tokens: Tokens = Field(description="Tokens")


class UniformLength(Part):
    """Equally likely anywhere from `low` to `high` tokens, both included."""

    kind: Literal["uniform"] = "uniform"
    low: Tokens = Field(description="Fewest tokens")
    high: Tokens = Field(description="Most tokens")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low > self.high:
            raise invalid(f"low ({self.low}) must not exceed high ({self.high})")
        return self


class _BoundedLength(Part):
    """A continuous distribution, rounded and clamped into [min, max] tokens; `mean` is the mean before clamping."""

    mean: PositiveFloat = Field(description="Mean number of tokens before bounds apply")
    min: Tokens = Field(default=1, description="Fewest tokens")
    max: Tokens = Field(default=1_000_000, description="Most tokens")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.min <= self.mean <= self.max:
            raise invalid(f"min <= mean <= max must hold, not {self.min} <= {self.mean:g} <= {self.max}")
        return self


class NormalLength(_BoundedLength):
    """Normally distributed lengths with standard deviation `std`, in tokens."""

    kind: Literal["normal"] = "normal"
    std: PositiveFloat = Field(description="Standard deviation in tokens")


class LognormalLength(_BoundedLength):
    """Log-normally distributed lengths; `sigma` is the standard deviation of the logarithm."""

    kind: Literal["lognormal"] = "lognormal"
    # Below 10 the median, mean · exp(-sigma² / 2), is still a number; real traffic has 0.5 to 1.5.
    sigma: Annotated[PositiveFloat, Field(le=10)] = Field(
        default=0.8, description="Standard deviation of the logarithm"
    )


class ZipfLength(Part):
    """Zipf's law within bounds: n tokens are as likely as n to the power of -`exponent`; 0 is uniform."""

    kind: Literal["zipf"] = "zipf"
    exponent: Annotated[float, Field(strict=True, ge=0, le=100)] = Field(
        description="Exponent; the probability of n tokens is proportional to n ** -exponent"
    )
    min: Tokens = Field(default=1, description="Fewest tokens")
    max: Annotated[Tokens, Field(le=10_000_000)] = Field(description="Most tokens")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min > self.max:
            raise invalid(f"min ({self.min}) must not exceed max ({self.max})")
        return self


class EmpiricalLength(Part):
    """Drawn from observed lengths: from `values`, as often as their `weights` say, or a `column` of a CSV `file`.

    `file` is relative to the experiment file's folder.
    """

    kind: Literal["empirical"] = "empirical"
    values: Annotated[list[Tokens], Field(min_length=1)] | None = Field(
        default=None, description="Observed numbers of tokens"
    )
    weights: list[PositiveFloat] | None = Field(default=None, description="Relative frequency of each value")
    file: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="CSV file of observed numbers, relative to the experiment file"
    )
    column: str | None = Field(default=None, description="Column of the file")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.values is None) == (self.file is None):
            raise invalid("either values or a file with a column is needed, such as values: [100, 200]")
        if (self.file is None) != (self.column is None):
            raise invalid("file and column belong together, such as file: lengths.csv, column: prompt_tokens")
        if self.weights is not None and len(self.weights) != len(self.values or ()):
            raise invalid(f"one weight for each value is needed, {len(self.values or ())}, not {len(self.weights)}")
        return self


class TraceLength(Part):
    """The lengths in the workload's trace, row by row."""

    kind: Literal["trace"] = "trace"


AnyLength: TypeAlias = (
    FixedLength | UniformLength | NormalLength | LognormalLength | ZipfLength | EmpiricalLength | TraceLength
)


def _bare_number(value: Any) -> Any:
    return {"kind": "fixed", "tokens": value} if isinstance(value, int | float) else value


_A_LENGTH = "a number of tokens, or a mapping with a kind, such as {kind: lognormal, mean: 512},"

Length = Annotated[
    AnyLength,
    Field(discriminator="kind"),
    BeforeValidator(known_kind("length", _A_LENGTH, AnyLength)),
    BeforeValidator(_bare_number),
]


class FixedTime(Part):
    """A fixed `time`."""

    kind: Literal["fixed"] = "fixed"
    time: NonNegativeSeconds = Field(description="The time")


class ExponentialTime(Part):
    """Exponentially distributed times with this mean."""

    kind: Literal["exponential"] = "exponential"
    mean: Seconds = Field(description="Mean time")


class LognormalTime(Part):
    """Log-normally distributed times with this mean; `sigma` is the standard deviation of the logarithm."""

    kind: Literal["lognormal"] = "lognormal"
    mean: Seconds = Field(description="Mean time")
    sigma: Annotated[PositiveFloat, Field(le=10)] = Field(
        default=1.0, description="Standard deviation of the logarithm"
    )


class UniformTime(Part):
    """Times equally likely anywhere from `low` to `high`."""

    kind: Literal["uniform"] = "uniform"
    low: NonNegativeSeconds = Field(description="Shortest time")
    high: Seconds = Field(description="Longest time")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low > self.high:
            raise invalid(f"low ({self.low:g} s) must not exceed high ({self.high:g} s)")
        return self


AnyTime: TypeAlias = FixedTime | ExponentialTime | LognormalTime | UniformTime


def _bare_time(value: Any) -> Any:
    return {"kind": "fixed", "time": value} if isinstance(value, str | int | float) else value


_A_TIME = "a time, or a mapping with a kind, such as {kind: exponential, mean: 20 s},"

Time = Annotated[
    AnyTime,
    Field(discriminator="kind"),
    BeforeValidator(known_kind("time", _A_TIME, AnyTime)),
    BeforeValidator(_bare_time),
]
