"""Service level objectives of a serving scenario: the experiment file's `slo`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

from pydantic import Field, create_model, model_validator

from simsys.config.base import FrozenModel, invalid
from simsys.units import Fraction, Seconds

STATISTICS = {"mean": "Largest mean", **{f"p{each}": f"Largest {each}th percentile" for each in (50, 90, 95, 99)}}
LATENCIES = {
    "ttft": "times to first token",
    "tpot": "times per output token of requests",
    "itl": "times between two tokens",
    "e2el": "end-to-end latencies",
}
TARGETS = ("ttft", "tpot", "e2el")
ATTAINMENT = 0.99
"""By default, as MLPerf judges servers by 99th percentiles."""

_LIMITS = {
    f"{statistic}_{latency}": (Seconds | None, Field(default=None, description=f"{largest} of {what}"))
    for latency, what in LATENCIES.items()
    for statistic, largest in STATISTICS.items()
}
Limits: type[FrozenModel] = create_model("Limits", __base__=FrozenModel, **_LIMITS)  # type: ignore[call-overload]


class SloConfig(Limits):  # type: ignore[misc, valid-type]
    """Latency targets of requests, and limits of statistics.

    A request counts towards goodput if it meets all targets. The SLO is met if the share `attainment` of the requests
    meets all of them, and every statistic, such as `p99_ttft`, is within its limit.
    """

    other_names: ClassVar[Mapping[str, str]] = {"itl": "tpot", "e2e": "e2el"}

    ttft: Seconds | None = Field(default=None, description="Longest time to first token of a request")
    tpot: Seconds | None = Field(default=None, description="Longest time per output token of a request")
    e2el: Seconds | None = Field(default=None, description="Longest end-to-end latency of a request")
    attainment: Fraction | None = Field(
        default=None, description="Share of the requests that have to meet all targets; by default 99 %"
    )

    @model_validator(mode="after")
    def _attained_targets(self) -> Self:
        if self.attainment is not None and not self.targets_s:
            raise invalid("attainment is the share of requests that meet ttft, tpot and e2el; give one of these")
        return self

    @property
    def targets_s(self) -> dict[str, float]:
        """The targets of a request, by latency (s)."""
        return {name: getattr(self, name) for name in TARGETS if getattr(self, name) is not None}

    @property
    def demands(self) -> dict[str, float]:
        """The targets and the limits, by name (s), with ``attainment``; empty if nothing is demanded."""
        limits_s = {name: getattr(self, name) for name in _LIMITS if getattr(self, name) is not None}
        found = {**self.targets_s, **limits_s}
        return {**found, "attainment": self.attainment or ATTAINMENT} if found else {}
