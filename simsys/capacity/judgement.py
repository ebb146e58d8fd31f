"""Whether a serving configuration meets its SLO in the steady state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simsys.capacity.steady import MOST_REQUESTS, SteadyState, steady_state
from simsys.capacity.until_steady import Missed, Verdict
from simsys.config.experiment import SimulationConfig
from simsys.errors import UsageError
from simsys.metrics.slo import ATTAINMENT
from simsys.metrics.slo import missed as slo_missed

FAR = 0.05
"""Share of the requests by which the attainment of a run is too small for it to continue."""
Demands = Callable[[Mapping[str, Any]], Sequence[str]]
"""Returns what metrics of the steady state miss, in words."""


@dataclass(frozen=True)
class Judgement:
    """The steady state of a configuration, and what it misses.

    Args:
        state: The run.
        missed: What it misses; a run that is not steady misses that.
    """

    state: SteadyState
    missed: tuple[str, ...]

    @property
    def meets(self) -> bool:
        """Whether it misses nothing."""
        return not self.missed


def nothing(_: Mapping[str, Any]) -> Sequence[str]:
    """No further demands."""
    return ()


def judged(config: SimulationConfig, *, also: Demands = nothing, most_requests: int = MOST_REQUESTS) -> Judgement:
    """Simulate a scenario until it is steady, or until it is known to miss its SLO.

    Args:
        config: The scenario, with `slo`.
        also: Further demands.
        most_requests: Largest number of requests.

    Raises:
        UsageError: If there is no SLO, or the arrivals have no steady state.
        ConfigError: If the scenario breaks a rule.
    """
    slo = slo_of(config)

    def misses(metrics: Mapping[str, Any]) -> Missed:
        """How far a run misses the SLO on the way, when some statistics are not known yet."""
        known = {name: demand for name, demand in slo.items() if metrics.get(f"{name}_ms", demand) is not None}
        if not slo_missed(known, metrics):
            return Missed.NOTHING
        attained = metrics.get("slo_attainment")
        far = attained is not None and attained < slo[ATTAINMENT] - FAR
        return Missed.BY_FAR if far else Missed.BY_LITTLE

    state = steady_state(config, most_requests=most_requests, misses=misses)
    missed = [*slo_missed(slo, state.metrics), *also(state.metrics)] if state.metrics else []
    if not state.is_steady and (state.verdict is not Verdict.MISSED or not missed):
        missed.append(state.text)
    return Judgement(state, tuple(missed))


def slo_of(config: SimulationConfig) -> dict[str, float]:
    """The demands of the SLO of a scenario.

    Raises:
        UsageError: If there are none.
    """
    slo = {} if config.slo is None else config.slo.demands
    if not slo:
        raise UsageError("a capacity is that under an SLO; write one, such as slo: {ttft: 500 ms, tpot: 50 ms}")
    return slo
