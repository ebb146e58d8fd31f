"""All deployments with engines of one kind: which of them fit, and with how many replicas at least."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from simsys.searches.serving.axes import Axes
from simsys.searches.serving.demand import Demand
from simsys.searches.serving.deployment import Aim, Deployment, Shape
from simsys.searches.serving.engines import DISAGGREGATED, EngineKind, Engines, Step, allowed_steps, built
from simsys.searches.serving.fleet import Fleet
from simsys.searches.serving.steps import Collectives, Steps
from simsys.searches.serving.values import Values

MEMORY = "the model or its shortest request does not fit into the memory"
UNATTAINABLE = "too many requests miss the targets even if each is alone on its engine"
TOO_FEW = "too few replicas for the work of the requests within their targets"
UNSUITABLE = "the number of replicas cannot be divided like this, or needs no router"


@dataclass
class SizedShapes:
    """The deployments with engines of one kind.

    Args:
        aim: What is asked of the deployments.
        demand: The requests.
        fleet: The hardware.
        axes: The space.
        kind: The kind of engine.
        sizes: Numbers of replicas, the smallest first.
        reasons: Counts the deployments that are left out, by reason.
        collectives: Known times of collectives.
    """

    aim: Aim
    demand: Demand
    fleet: Fleet
    axes: Axes
    kind: EngineKind
    sizes: Sequence[int]
    reasons: Counter[str]
    collectives: Collectives

    def __post_init__(self) -> None:
        group = self.kind.gpus
        possible = [each for each in sorted(self.sizes) if self.fleet.size(each * group, group) is not None]
        self._possible = tuple(possible)
        self._durations: Steps | None = None

    def deployments(self, outer: Mapping[str, Any], varying: frozenset[str], *, sized: bool) -> Iterator[Deployment]:
        """The deployments that fit; the others are counted.

        Args:
            outer: Settings without an axis of their own.
            varying: Paths of the settings that vary.
            sized: Whether a deployment stands for all its larger sizes.
        """
        for group in ([each for each in self.axes.pools if each is None], [each for each in self.axes.pools if each]):
            if not group:
                continue
            steps = [Step(*each) for each in product(self.axes.sequences, self.axes.tokens)]
            alike = len(group) * len(self.axes.routers) * len(self.sizes)
            if group[0] is not None and self._possible[-1:] <= (1,):
                self._count(UNSUITABLE, alike * len(steps))
                continue
            engines = self._engines(steps, alike, divided=group[0] is not None)
            for place in self._fitting(engines, alike) if engines is not None else ():
                assert engines is not None
                needed = self._needed(engines, place)
                for pools, router in product(group, self.axes.routers):
                    shape = Shape(self.fleet, outer, self.kind, engines.steps[place], router, pools, varying)
                    yield from self._of_shape(shape, Values(engines, place), needed, sized=sized)

    def _engines(self, steps: Sequence[Step], alike: int, *, divided: bool) -> Engines | None:
        """The engines with the allowed limits of a step; None if they break a rule."""
        made = built(self.fleet, self._smallest(divided=divided))
        if isinstance(made, str):
            self.reasons[made] += len(steps) * alike
            return None
        job, shortest = made
        allowed = allowed_steps(job, steps, self.reasons, alike)
        if not allowed.steps:
            return None
        if self._durations is None:
            longest = self.demand.prompt_tokens.max()
            most = int(max(allowed.tokens.max(), allowed.sequences.max(), longest))
            self._durations = Steps.of(job.pools[-1], most, self.collectives)
        return Engines.of(job, allowed, self.demand, shortest, self._durations)

    def _smallest(self, *, divided: bool) -> dict[str, Any]:
        """Settings of the smallest replicas of this kind."""
        fleet, group = self.fleet, self.kind.gpus
        count = fleet.written.num_gpus // group if fleet.fixed else 1 + divided
        pools = {"prefill_replicas": 1, "decode_replicas": count - 1} if divided else None
        given = fleet.config.serving
        assert given is not None
        settings = {
            **(fleet.size(count * group, group) or {}),
            **self.kind.settings(fleet.config.parallelism),
            "parallelism.dp_degree": count,
        }
        if pools is not None:
            settings[DISAGGREGATED] = pools
        elif given.disaggregated is not None:
            settings[DISAGGREGATED] = None
        return settings

    def _fitting(self, engines: Engines, alike: int) -> list[int]:
        """The places of the limits with which replicas fit and the targets can be met."""
        fits = engines.fits
        self._count(MEMORY, int((~fits).sum()) * alike)
        if not self.aim.judged:
            return np.nonzero(fits)[0].tolist()
        can = fits & engines.attainable
        self._count(UNATTAINABLE, int((fits & ~can).sum()) * alike)
        return np.nonzero(can)[0].tolist()

    def _needed(self, engines: Engines, place: int) -> tuple[int, int, int]:
        """Fewest replicas that do both, that process prompts, and that decode."""
        return engines.needed(place) if self.aim.judged else (1, 1, 1)

    def _of_shape(
        self, shape: Shape, values: Values, needed: tuple[int, int, int], *, sized: bool
    ) -> Iterator[Deployment]:
        """The deployments of a shape by their size."""
        sizes = self._suitable(shape)
        self._count(UNSUITABLE, len(self.sizes) - len(sizes))
        first = bisect_left(sizes, needed[0])
        if shape.pools is not None:
            first = bisect_left(sizes, needed[1] + needed[2])
            while first < len(sizes) and not _enough(shape.divided(sizes[first]), needed[1:]):
                first += 1
        self._count(TOO_FEW, first)
        places = range(first, len(sizes))
        for place in places[:1] if sized else places:
            yield Deployment(shape, sizes, place, self.aim, values)

    def _suitable(self, shape: Shape) -> tuple[int, ...]:
        """The numbers of replicas that a shape can have."""
        pools = shape.pools
        if pools is not None and not isinstance(pools, Fraction):
            return tuple(each for each in self._possible if each == pools.replicas)
        several = pools is not None or shape.router != self.axes.routers[0]
        return self._possible[bisect_left(self._possible, 2) :] if several else self._possible

    def _count(self, reason: str, deployments: int) -> None:
        if deployments:
            self.reasons[reason] += deployments


def _enough(divided: tuple[int, int] | None, needed: Sequence[int]) -> bool:
    assert divided is not None
    return divided[0] >= needed[0] and divided[1] >= needed[1]
