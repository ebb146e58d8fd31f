"""Settings of the experiment file for the arrival times of requests."""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from simsys.config.base import invalid
from simsys.config.discriminators import Part, PositiveFloat, known_kind
from simsys.sums import ordered_sum
from simsys.units import Dimension, Quantity, RequestsPerSecond, Seconds

_RateOrNone = Annotated[float, Quantity(Dimension.REQUESTS_PER_SECOND, zero=True)]


class PoissonArrivals(Part):
    """Poisson process: independent arrivals at a mean rate, with exponentially distributed gaps."""

    kind: Literal["poisson"] = "poisson"
    rate: RequestsPerSecond = Field(description='Mean rate, such as "6 req/s"')


class GammaArrivals(Part):
    """Gamma distributed gaps; `burstiness` is the shape: 1 is Poisson, less is burstier, more is steadier."""

    kind: Literal["gamma"] = "gamma"
    rate: RequestsPerSecond = Field(description="Mean rate")
    burstiness: Annotated[PositiveFloat, Field(ge=0.001)] = Field(
        description="Shape of the gaps: 1 is Poisson, smaller is burstier, as in vllm bench serve"
    )


class ConstantArrivals(Part):
    """Evenly spaced arrivals, the first at 0."""

    kind: Literal["constant"] = "constant"
    rate: RequestsPerSecond = Field(description="Rate")


class AllAtOnceArrivals(Part):
    """Every request at time 0: an offline batch."""

    kind: Literal["all_at_once"] = "all_at_once"


class ClosedLoopArrivals(Part):
    """`concurrency` clients, each of which sends its next request when its last one has ended."""

    kind: Literal["closed_loop"] = "closed_loop"
    concurrency: Annotated[int, Field(strict=True, ge=1, le=10_000_000)] = Field(
        description="Requests in the system at any time"
    )


class RatePiece(Part):
    """A mean rate of independent arrivals during `duration`; it may be zero."""

    duration: Seconds = Field(description="Duration of this rate")
    rate: _RateOrNone = Field(description="Mean rate of a Poisson process; may be zero")


class TimeVaryingArrivals(Part):
    """Poisson process with a rate that changes over time. At the end `rates` repeat, or the last one continues."""

    kind: Literal["time_varying"] = "time_varying"
    rates: Annotated[list[RatePiece], Field(min_length=1)] = Field(description="Rates, one after another")
    repeat: bool = Field(default=True, description="Begin again with the first rate after the last one")

    @model_validator(mode="after")
    def _arrivals_go_on(self) -> Self:
        if not any(piece.rate for piece in self.rates):
            raise invalid("all rates are zero, so that no request ever arrives")
        if not self.repeat and not self.rates[-1].rate:
            raise invalid("without repeat the last rate continues, so it must be above zero")
        return self


class TraceArrivals(Part):
    """The timestamps of the workload's trace, counted from its first row."""

    kind: Literal["trace"] = "trace"


AnyArrivals: TypeAlias = (
    PoissonArrivals
    | GammaArrivals
    | ConstantArrivals
    | AllAtOnceArrivals
    | ClosedLoopArrivals
    | TimeVaryingArrivals
    | TraceArrivals
)

_A_MAPPING = "a mapping with a kind, such as {kind: poisson, rate: 8 req/s},"

Arrivals = Annotated[
    AnyArrivals, Field(discriminator="kind"), BeforeValidator(known_kind("arrivals", _A_MAPPING, AnyArrivals))
]


def expected_arrivals(arrivals: AnyArrivals, duration_s: float) -> float:
    """Expected number of arrivals within a time, without drawing them; 0 if a rate does not determine it.

    Args:
        arrivals: The arrival process.
        duration_s: The time (s).

    Example:
        >>> expected_arrivals(ConstantArrivals.model_validate({"rate": "2 req/s"}), 10.0)
        20.0
    """
    match arrivals:
        case PoissonArrivals() | GammaArrivals() | ConstantArrivals():
            return arrivals.rate * duration_s
        case TimeVaryingArrivals():
            return _expected_of_pieces(arrivals, duration_s)
        case _:
            return 0.0


def _expected_of_pieces(arrivals: TimeVaryingArrivals, duration_s: float) -> float:
    round_s = ordered_sum(piece.duration for piece in arrivals.rates)
    rounds = duration_s // round_s if arrivals.repeat else 0.0
    left_s = duration_s - rounds * round_s
    expected = rounds * ordered_sum(piece.rate * piece.duration for piece in arrivals.rates)
    for piece in arrivals.rates:
        within_s = min(piece.duration, left_s)
        expected, left_s = expected + piece.rate * within_s, left_s - within_s
    return expected + arrivals.rates[-1].rate * left_s
