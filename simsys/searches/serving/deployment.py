"""One deployment of a serving scenario in a search, and the series of its sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple, Self

from simsys.searches.candidates import Simplicity, SizedCandidate
from simsys.searches.goal import GOODPUT, NUM_GPUS, Goal
from simsys.searches.serving.axes import Pools
from simsys.searches.serving.engines import DISAGGREGATED, EngineKind, Step, typed
from simsys.searches.serving.fleet import Fleet
from simsys.searches.serving.targets import missed
from simsys.searches.serving.values import PRICE, Values, is_bounded
from simsys.searches.simulated import Run, Task
from simsys.user_modules import current


@dataclass(frozen=True)
class Shape:
    """A deployment without its number of replicas.

    Args:
        fleet: The hardware.
        outer: Settings without an axis of their own.
        kind: The kind of its engines.
        step: Written limits of a step.
        router: The router.
        pools: Division into prefill and decode replicas.
        varying: Paths of the settings that vary.
    """

    fleet: Fleet
    outer: Mapping[str, Any]
    kind: EngineKind
    step: Step
    router: str
    pools: Pools
    varying: frozenset[str]

    def divided(self, replicas: int) -> tuple[int, int] | None:
        """Numbers of prefill and of decode replicas; None if replicas are not divided."""
        if self.pools is None:
            return None
        if isinstance(self.pools, Fraction):
            prefill = min(replicas - 1, max(1, round(replicas * self.pools)))
            return prefill, replicas - prefill
        return self.pools.prefill_replicas, self.pools.decode_replicas

    def settings(self, replicas: int) -> dict[str, Any]:
        """Its settings with a number of replicas, by dotted path."""
        fleet, config = self.fleet, self.fleet.config
        size = fleet.size(replicas * self.kind.gpus, self.kind.gpus) or {}
        found: dict[str, Any] = {
            **self.outer,
            **size,
            **self.kind.settings(config.parallelism),
            "parallelism.dp_degree": replicas,
            **self.step.settings,
        }
        if "parallelism.attention_dp" in self.varying and fleet.model.experts > 1:
            found["parallelism.attention_dp"] = self.kind.attention
        if "serving.router" in self.varying:
            found["serving.router"] = self.router
        divided = self.divided(replicas)
        if divided is not None and (isinstance(self.pools, Fraction) or "serving.disaggregated" in self.varying):
            found[DISAGGREGATED] = {"prefill_replicas": divided[0], "decode_replicas": divided[1]}
        return found

    @property
    def complexity(self) -> int:
        """Number of ways in which it differs from one plain engine with its defaults."""
        kind, given = self.kind, (self.step.sequences, self.step.tokens, self.kind.precision, self.kind.kv_precision)
        degrees = (kind.tensor > 1) + (kind.pipeline > 1) + (kind.expert > 1) + (kind.attention > 1)
        written = sum(each is not None for each in given)
        return degrees + written + (self.pools is not None) + (self.router != "round_robin")


class Aim(NamedTuple):
    """What is asked of deployments.

    Args:
        goal: What is best.
        judged: Whether they have to meet the SLO.
        to_steady: Whether their whole runs continue until the steady state.
        headroom: Share of the KV cache that has to be free at its fullest moment.
    """

    goal: Goal
    judged: bool
    to_steady: bool
    headroom: float


@dataclass(frozen=True)
class Deployment(SizedCandidate):
    """A deployment that fits.

    Args:
        shape: The deployment without its number of replicas.
        sizes: Numbers of replicas, the smallest first, of which larger ones serve the requests better.
        place: The place of its own number of replicas.
        aim: What is asked of it.
        values: Bounds of its metrics.
    """

    shape: Shape
    sizes: Sequence[int]
    place: int
    aim: Aim
    values: Values

    @property
    def replicas(self) -> int:
        """Number of replicas."""
        return self.sizes[self.place]

    @property
    def gpus(self) -> int:
        """Number of its GPUs."""
        return self.replicas * self.shape.kind.gpus

    @property
    def least_key(self) -> float:  # type: ignore[override]
        """A lower bound of the key of its value of the goal; 0 without a bound."""
        if not is_bounded(self.aim.goal):
            return 0.0
        prefill, decode = self.shape.divided(self.replicas) or (self.replicas, self.replicas)
        price = self.shape.fleet.price
        return self.aim.goal.key(self.values.best(self.aim.goal.metric, self.gpus, price, prefill, decode))

    @property
    def known(self) -> dict[str, float]:  # type: ignore[override]
        """The number of GPUs and their price."""
        return {NUM_GPUS: float(self.gpus), PRICE: self.gpus * self.shape.fleet.price}

    @property
    def settings(self) -> dict[str, Any]:
        """Its settings by dotted path."""
        return self.shape.settings(self.replicas)

    @property
    def family(self) -> str:
        """The settings of the kind of hardware, as text."""
        return str({key: value for key, value in self.shape.outer.items() if key.startswith("hardware.")})

    @property
    def last_place(self) -> int:  # type: ignore[override]
        """The place of the largest number of replicas."""
        return len(self.sizes) - 1

    def resized(self, place: int) -> Self:
        """The same deployment with the number of replicas at another place."""
        return replace(self, place=place)

    def task(self, *, short: bool) -> Task:
        """A short run at medium detail, or the steady state or whole run as the scenario says."""
        fleet = self.shape.fleet
        settings = {**self.settings, **(fleet.short if short and self.aim.goal.metric != GOODPUT else {})}
        run = Run.ONCE
        if self.aim.goal.metric == GOODPUT:
            run = Run.ROUGH_RATE if short else Run.GREATEST_RATE
        elif not short and self.aim.to_steady:
            run = Run.STEADY
        return Task(fleet.config, typed(settings), current(), run, judged=self.aim.judged)

    def metrics(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """The metrics of its run with the number of GPUs."""
        return {**found, NUM_GPUS: self.gpus}

    def problem(self, metrics: Mapping[str, Any]) -> str:
        """Why it does not serve the requests within their targets; empty if it does."""
        return missed(self.shape.fleet.config, metrics, self.aim.headroom) if self.aim.judged else ""

    def simplicity(self, metrics: Mapping[str, Any]) -> Simplicity:
        """Price, number of GPUs, and number of ways in which it is not plain."""
        return float(metrics.get(PRICE) or 0.0), float(metrics[NUM_GPUS]), float(self.shape.complexity)
