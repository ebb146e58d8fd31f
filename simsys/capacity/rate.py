"""The greatest rate of requests at which a serving configuration meets its SLO in the steady state (its goodput)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simsys.build.workload import build_requests
from simsys.capacity.judgement import Demands, Judgement, judged, nothing, slo_of
from simsys.capacity.steady import MOST_REQUESTS
from simsys.capacity.until_steady import Verdict
from simsys.config.arrivals import ConstantArrivals, GammaArrivals, PoissonArrivals
from simsys.config.experiment import SimulationConfig
from simsys.errors import UsageError

TOLERANCE = 0.02
STRIDE = 2.0
"""Factor between rates until one meets the SLO and one misses it."""
ALONE = 1e-3
"""With fewer requests in the system on average, nearly all are served alone, and a lower rate changes nothing."""
FASTEST, SLOWEST = 1e7, 1e-6
"""Rates between which the answer is sought (1/s)."""
GOODPUT, ABOVE, UNIT = "goodput", "goodput_missing", "goodput_unit"
"""The greatest rate and the least that misses the SLO, among the metrics of an answer (1/s), and their unit."""


@dataclass(frozen=True)
class GreatestRate:
    """The greatest rate that meets an SLO.

    Args:
        name: Name of the scenario.
        unit: Unit of the rates: ``req/s``, or ``conversations/s`` if a request is a turn of a conversation.
        requests_per_s: The greatest simulated rate that meets it; None if no rate does.
        missing_per_s: The least simulated rate above it, which misses the SLO; None if the SLO was never missed.
        metrics: Metrics of the steady state at the greatest rate, with `goodput` and `goodput_missing`,
            the two rates, and `goodput_unit`; empty if there is none.
        tried: The simulated rates (1/s), in order, each with its judgement.
        notes: Doubts about the answer.
    """

    name: str
    unit: str
    requests_per_s: float | None
    missing_per_s: float | None
    metrics: Mapping[str, Any]
    tried: Sequence[tuple[float, Judgement]]
    notes: Sequence[str] = ()

    @property
    def simulations(self) -> int:
        """Number of simulations."""
        return len(self.tried)

    @property
    def text(self) -> str:
        """The answer in a line."""
        if self.requests_per_s is None:
            return f"no rate meets the SLO: {'; '.join(self.tried[-1][1].missed)}"
        return f"{rate_text(self.metrics)}; {len(self.tried)} simulations"


def rate_text(metrics: Mapping[str, Any]) -> str:
    """The greatest rate among the metrics of an answer, with its bracket."""
    low, high = metrics[GOODPUT], metrics[ABOVE]
    found = f"greatest rate: {low:.3g} {metrics[UNIT]}"
    return (
        f"{found}, steady, and no rate misses the SLO" if high is None else f"{found} ({low:.4g}–{high:.4g}), steady"
    )


def greatest_rate(
    config: SimulationConfig,
    *,
    tolerance: float = TOLERANCE,
    also: Demands = nothing,
    most_requests: int = MOST_REQUESTS,
) -> GreatestRate:
    """Find the greatest rate of requests that meets the SLO of a scenario, by bisection.

    All rates have the same random streams: lengths are equal, and the gaps between arrivals have equal ratios
    (common random numbers; Law, "Simulation Modeling and Analysis", chapter 11). Each rate is judged in its steady
    state; a rate at which the requests in the system still grow does not meet the SLO.

    Args:
        config: The scenario, with `slo`; the search begins at the rate of its arrivals.
        tolerance: Largest relative difference between the answer and a rate that misses the SLO.
        also: Further demands.
        most_requests: Largest number of requests of a simulation.

    Raises:
        UsageError: If there is no SLO, or the arrivals have no rate.
        ConfigError: If the scenario breaks a rule.
    """
    slo_of(config)
    if not 0.0 < tolerance < 1.0:
        raise UsageError(f"the tolerance of the greatest rate is between 0 and 1, not {tolerance:g}")
    bracket, tried = _Bracket(tolerance), list[tuple[float, Judgement]]()
    rate: float | None = rate_of(config)
    while rate is not None:
        found = judged(at_rate(config, rate), also=also, most_requests=most_requests)
        tried.append((rate, found))
        bracket.note(rate, found)
        rate = bracket.next_rate()
    low, high = bracket.low, bracket.high
    rates = {GOODPUT: low, ABOVE: high, UNIT: arrives(config)}
    metrics = {} if bracket.best is None else {**bracket.best.state.metrics, **rates}
    return GreatestRate(config.name, arrives(config), low, high, metrics, tried, bracket.notes)


class _Bracket:
    """The greatest rate that met the SLO, and the least that missed it."""

    def __init__(self, tolerance: float) -> None:
        self._tolerance = tolerance
        self.low: float | None = None
        self.high: float | None = None
        self.best: Judgement | None = None
        self.worst: Judgement | None = None
        self._steady_misses = 0  # after two, the SLO may be missed at any rate

    def note(self, rate: float, found: Judgement) -> None:
        """Make the bracket narrower."""
        if found.meets:
            self.low, self.best = rate, found
        else:
            self.high, self.worst = rate, found
            self._steady_misses += found.state.is_steady

    def next_rate(self) -> float | None:
        """The next rate; None if the answer is known."""
        low, high = self.low, self.high
        if low is not None and high is not None:
            return None if high <= low * (1.0 + self._tolerance) else math.sqrt(low * high)
        if low is not None:
            return low * STRIDE if low < FASTEST else None
        assert high is not None
        assert self.worst is not None
        e2el_ms = self.worst.state.metrics.get("mean_e2el_ms")
        alone_per_s = ALONE / (1e-3 * e2el_ms) if e2el_ms else 0.0  # Little's law
        if high <= 2.0 * alone_per_s or high < SLOWEST:
            return None
        return alone_per_s if self._steady_misses > 1 else high / STRIDE**2

    @property
    def notes(self) -> list[str]:
        """Doubts about the answer."""
        if self.worst is None or self.worst.state.verdict is not Verdict.GROWING:
            return []
        return [f"a rate of {self.high:.4g} per second counts as too high: {self.worst.state.text}"]


def rate_of(config: SimulationConfig) -> float:
    """The mean rate of the arrivals of a serving scenario, or of its conversations (1/s).

    Raises:
        UsageError: If the arrivals have no rate.
        TraceError: If its trace cannot be read.
    """
    workload = config.workload
    arrivals = None if workload is None else workload.arrivals
    if isinstance(arrivals, PoissonArrivals | GammaArrivals | ConstantArrivals):
        return arrivals.rate
    if workload is not None and workload.arrivals.kind == "trace":
        found = build_requests(workload, config.simulation.seed, config.folder).mean_rate_per_s
        if found is not None:
            return found
    kind = "" if arrivals is None else f", not of kind {arrivals.kind}"
    raise UsageError(
        f"the rate of arrivals varies, so arrivals of kind poisson, gamma, constant or trace are needed{kind}; "
        f"write workload.arrivals: {{kind: poisson, rate: 1 req/s}}"
    )


def at_rate(config: SimulationConfig, requests_per_s: float) -> SimulationConfig:
    """A scenario with another rate of arrivals; a trace is replayed faster or slower."""
    workload = config.workload
    assert workload is not None
    if workload.trace is not None and workload.arrivals.kind == "trace":
        scale = workload.trace.rate_scale * requests_per_s / rate_of(config)
        changes: dict[str, Any] = {"trace": workload.trace.model_copy(update={"rate_scale": scale})}
    else:
        changes = {"arrivals": workload.arrivals.model_copy(update={"rate": requests_per_s})}
    return config.model_copy(update={"workload": workload.model_copy(update=changes)})


def arrives(config: SimulationConfig) -> str:
    """The unit of the rate of arrivals: requests per second, or conversations per second if these have turns."""
    workload = config.workload
    assert workload is not None
    in_turns = workload.sessions is not None or (workload.trace is not None and workload.trace.multi_turn)
    return "conversations/s" if in_turns else "req/s"
