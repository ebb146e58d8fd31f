"""When requests arrive, as the experiment file says it."""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from simsys.config.base import invalid
from simsys.config.discriminators import Part, PositiveFloat, known_kind
from simsys.units import Dimension, Quantity, RequestsPerSecond, Seconds

_RateOrNone = Annotated[float, Quantity(Dimension.REQUESTS_PER_SECOND, zero=True)]


class PoissonArrivals(Part):
    """Independent arrivals at a mean rate: exponentially distributed gaps."""

    kind: Literal["poisson"] = "poisson"
    rate: RequestsPerSecond


class GammaArrivals(Part):
    """Gamma distributed gaps; `burstiness` is the shape: 1 is Poisson, less is burstier, more is steadier."""

    kind: Literal["gamma"] = "gamma"
    rate: RequestsPerSecond
    burstiness: Annotated[PositiveFloat, Field(ge=0.001)]  # gaps vary by 32 times their mean at 0.001


class ConstantArrivals(Part):
    """Evenly spaced arrivals, the first at 0."""

    kind: Literal["constant"] = "constant"
    rate: RequestsPerSecond


class AllAtOnceArrivals(Part):
    """Every request at time 0: an offline batch."""

    kind: Literal["all_at_once"] = "all_at_once"


class ClosedLoopArrivals(Part):
    """`concurrency` clients, each of which sends its next request when its last one has ended."""

    kind: Literal["closed_loop"] = "closed_loop"
    concurrency: Annotated[int, Field(strict=True, ge=1, le=10_000_000)]


class RatePiece(Part):
    """A mean rate of independent arrivals, which may be zero, for some time."""

    duration: Seconds
    rate: _RateOrNone


class TimeVaryingArrivals(Part):
    """Independent arrivals whose mean rate changes over time; then the pieces `repeat` or the last one continues."""

    kind: Literal["time_varying"] = "time_varying"
    rates: Annotated[list[RatePiece], Field(min_length=1)]
    repeat: bool = True

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
