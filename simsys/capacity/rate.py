"""The greatest rate of requests at which a serving configuration meets its SLO in the steady state (its goodput)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simsys.capacity.steady import MOST_REQUESTS, SteadyState, steady_state
from simsys.capacity.until_steady import Verdict
from simsys.config.arrivals import ConstantArrivals, GammaArrivals, PoissonArrivals
from simsys.config.experiment import SimulationConfig
from simsys.errors import UsageError
from simsys.metrics.slo import missed as slo_missed

TOLERANCE = 0.02
STRIDE = 2.0
"""Factor between rates until one meets the SLO and one misses it."""
ALONE = 1e-3
"""With fewer requests in the system on average, nearly all are served alone, and a lower rate changes nothing."""
FASTEST, SLOWEST = 1e7, 1e-6
"""Rates between which the answer is sought (1/s)."""
GOODPUT = "goodput"
"""The greatest rate among the metrics of an answer (1/s)."""


@dataclass(frozen=True)
class RateProbe:
    """One simulated rate.

    Args:
        requests_per_s: The rate.
        meets: Whether it meets the SLO in the steady state.
        state: The run.
        missed: What it misses.
    """

    requests_per_s: float
    meets: bool
    state: SteadyState
    missed: tuple[str, ...]


@dataclass(frozen=True)
class GreatestRate:
    """The greatest rate that meets an SLO.

    Args:
        name: Name of the scenario.
        requests_per_s: The greatest simulated rate that meets it; None if no rate does.
        missing_per_s: The least simulated rate above it, which misses the SLO; None if the SLO was never missed.
        metrics: Metrics of the steady state at the greatest rate, with `goodput` (1/s); empty if there is none.
        probes: The simulated rates, in order.
        notes: Doubts about the answer.
    """

    name: str
    requests_per_s: float | None
    missing_per_s: float | None
    metrics: Mapping[str, Any]
    probes: Sequence[RateProbe]
    notes: Sequence[str] = ()

    @property
    def simulations(self) -> int:
        """Number of simulations."""
        return len(self.probes)

    @property
    def text(self) -> str:
        """The answer in a line."""
        if self.requests_per_s is None:
            return f"no rate meets the SLO: {'; '.join(self.probes[-1].missed)}"
        steady = "steady" if self.missing_per_s is not None else "steady, and no rate misses the SLO"
        bracket = f" ({self.requests_per_s:.4g}–{self.missing_per_s:.4g})" if self.missing_per_s is not None else ""
        return f"greatest rate: {self.requests_per_s:.3g} req/s{bracket}, {steady}; {self.simulations} simulations"


def nothing(_: Mapping[str, Any]) -> Sequence[str]:
    """No further demands."""
    return ()


def greatest_rate(
    config: SimulationConfig,
    *,
    tolerance: float = TOLERANCE,
    also: Callable[[Mapping[str, Any]], Sequence[str]] = nothing,
    most_requests: int = MOST_REQUESTS,
) -> GreatestRate:
    """Find the greatest rate of requests that meets the SLO of a scenario, by bisection.

    All rates have the same random streams: lengths are equal, and the gaps between arrivals have equal ratios
    (common random numbers; Law, "Simulation Modeling and Analysis", chapter 11). Each rate is judged in its steady
    state; a rate at which the requests in the system still grow does not meet the SLO.

    Args:
        config: The scenario, with `slo`; the search begins at the rate of its arrivals.
        tolerance: Largest relative difference between the answer and a rate that misses the SLO.
        also: Further demands: returns what metrics of the steady state miss, in words.
        most_requests: Largest number of requests of a simulation.

    Raises:
        UsageError: If there is no SLO, or the arrivals have no rate.
        ConfigError: If the scenario breaks a rule.
    """
    if config.slo is None or not config.slo.demands:
        raise UsageError("the greatest rate needs an SLO, such as slo: {ttft: 500 ms, tpot: 50 ms}")
    if not 0.0 < tolerance < 1.0:
        raise UsageError(f"the tolerance of the greatest rate is between 0 and 1, not {tolerance:g}")
    return _Bisection(config, tolerance, also, most_requests).run()


class _Bisection:
    """Simulates rates until one that meets the SLO and one that misses it are close together."""

    def __init__(
        self,
        config: SimulationConfig,
        tolerance: float,
        also: Callable[[Mapping[str, Any]], Sequence[str]],
        most_requests: int,
    ) -> None:
        assert config.slo is not None
        self.config, self.tolerance, self.most_requests = config, tolerance, most_requests
        self._slo, self._also = config.slo.demands, also
        self.probes: list[RateProbe] = []
        self.best: RateProbe | None = None
        self.worst: RateProbe | None = None

    def run(self) -> GreatestRate:
        """Carry it out."""
        rate: float | None = rate_of(self.config)
        while rate is not None:
            probe = self._probe(rate)
            self.probes.append(probe)
            if probe.meets:
                self.best = probe
            else:
                self.worst = probe
            rate = self._next()
        return self._answer()

    def _next(self) -> float | None:
        """The next rate; None if the answer is known."""
        best, worst = self.best, self.worst
        if worst is None:
            assert best is not None
            return best.requests_per_s * STRIDE if best.requests_per_s < FASTEST else None
        if best is None:
            e2el_ms = worst.state.metrics.get("mean_e2el_ms")
            alone = e2el_ms is not None and worst.requests_per_s * e2el_ms * 1e-3 < ALONE  # Little's law
            return None if alone or worst.requests_per_s < SLOWEST else worst.requests_per_s / STRIDE**2
        low, high = best.requests_per_s, worst.requests_per_s
        return None if high <= low * (1.0 + self.tolerance) else math.sqrt(low * high)

    def _probe(self, rate: float) -> RateProbe:
        config = at_rate(self.config, rate)
        state = steady_state(config, most_requests=self.most_requests, hopeless=self._is_missed)
        missed = [] if state.is_steady else [state.text]
        if state.metrics:
            missed += [*slo_missed(self._slo, state.metrics), *self._also(state.metrics)]
        return RateProbe(rate, not missed, state, tuple(missed))

    def _is_missed(self, metrics: Mapping[str, Any]) -> bool:
        """Whether a run misses the SLO on the way, when some statistics are not known yet."""
        known = {name: demand for name, demand in self._slo.items() if metrics.get(f"{name}_ms", demand) is not None}
        return bool(slo_missed(known, metrics))

    def _answer(self) -> GreatestRate:
        best, worst = self.best, self.worst
        notes = []
        if worst is not None and worst.state.verdict is Verdict.GROWING:
            notes.append(f"{worst.requests_per_s:.4g} req/s counts as missed: {worst.state.text}")
        rate = None if best is None else best.requests_per_s
        metrics = {} if best is None else {**best.state.metrics, GOODPUT: rate}
        missing = None if worst is None else worst.requests_per_s
        return GreatestRate(self.config.name, rate, missing, metrics, self.probes, notes)


def rate_of(config: SimulationConfig) -> float:
    """The mean rate of the arrivals of a serving scenario (1/s).

    Raises:
        UsageError: If the arrivals have no rate.
    """
    arrivals = config.workload.arrivals if config.workload is not None else None
    if isinstance(arrivals, PoissonArrivals | GammaArrivals | ConstantArrivals):
        return arrivals.rate
    kind = "" if arrivals is None else f", not of kind {arrivals.kind}"
    raise UsageError(
        f"the rate of arrivals varies, so arrivals of kind poisson, gamma or constant are needed{kind}; "
        f"write workload.arrivals: {{kind: poisson, rate: 1 req/s}}"
    )


def at_rate(config: SimulationConfig, requests_per_s: float) -> SimulationConfig:
    """A scenario with another rate of arrivals."""
    assert config.workload is not None
    arrivals = config.workload.arrivals.model_copy(update={"rate": requests_per_s})
    workload = config.workload.model_copy(update={"arrivals": arrivals})
    return config.model_copy(update={"workload": workload})
