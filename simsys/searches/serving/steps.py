"""Least durations of the steps of an engine, by their number of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simsys.build.serving import ServingJob
from simsys.collectives.choose import Choose
from simsys.costs.pass_cost import PassCost
from simsys.errors import UsageError
from simsys.executors.communicator import Communicator
from simsys.model.batch import Batch
from simsys.parallel.layout import Group
from simsys.parallel.passes import ForwardPass
from simsys.platform.environment import Environment
from simsys.sums import ordered_sum

Floats = NDArray[np.float64]
DENSE, RATIO = 16, 1.12
"""Every number of tokens up to the first is looked at, then numbers that grow by the second."""
BETWEEN = 0.99
"""Durations between two numbers that are looked at are at least this share of the smaller one's."""
ONE_PAIR = 1.0
Row = tuple[list[float], list[float], float]
"""Durations of a stage by tokens, in decode steps and in steps with prompts, and the time per cached token."""

Signature = tuple[tuple[int, int], ...]
"""The stretches of a stage: an identity of their layers, and the number of layers."""


def token_counts(most: int) -> NDArray[np.int64]:
    """Numbers of tokens up to `most`, all small ones and ever fewer large ones."""
    found = list(range(1, min(DENSE, most) + 1))
    while found[-1] < most:
        found.append(min(most, int(found[-1] * RATIO) + 1))
    return np.array(found)


@dataclass(frozen=True)
class Steps:
    """Least durations of the steps of an engine.

    Args:
        counts: Numbers of tokens.
        decoding: Durations of steps with at least a number of decoding sequences, without context, by stage (s).
        passing: Durations of any steps with at least a number of tokens, by stage (s).
        prompts: Durations of steps that have prompts and at least a number of tokens, by stage (s).
        context_s: By stage, time per cached token that decoding sequences read (s).
    """

    counts: NDArray[np.int64]
    decoding: Floats
    passing: Floats
    prompts: Floats
    context_s: Floats

    @classmethod
    def of(cls, pool: ServingJob, most: int, collectives: Collectives) -> Steps:
        """The steps of the engines of a pool.

        Args:
            pool: The pool.
            most: Most tokens of a step.
            collectives: Known times of collectives.
        """
        counts, alike, rows = token_counts(most), dict[Signature, Row](), list[Row]()
        group = pool.teams(0)[0]
        # Of ranks that step together, the exchange and the experts' part also depend on the others' requests.
        for plan in pool.stages if pool.attention_dp == 1 else [pool.lockstep(0).own]:
            signature = tuple((id(stretch.segments), stretch.repeat) for stretch in plan.stretches)
            if signature not in alike:
                alike[signature] = _durations(_pass_cost(pool, plan, group, collectives), counts)
            rows.append(alike[signature])
        decoding, prompts, context_s = (np.array(each) for each in zip(*rows, strict=True))
        rounded = BETWEEN * np.minimum.accumulate(np.minimum(decoding, prompts)[:, ::-1], axis=1)[:, ::-1]
        at_least = BETWEEN * np.minimum.accumulate(decoding[:, ::-1], axis=1)[:, ::-1]
        of_prompts = BETWEEN * np.minimum.accumulate(prompts[:, ::-1], axis=1)[:, ::-1]
        return cls(counts, at_least, rounded, of_prompts, context_s)

    def _per_token(self, durations: Floats) -> Floats:
        """Least time per token of the busiest stage, by the largest number of tokens of a step."""
        least: Floats = np.minimum.accumulate(durations / self.counts, axis=1)
        each: Floats = least.max(axis=0)
        return each

    @cached_property
    def decode_token_s(self) -> Floats:
        """Least time of the busiest stage per decoded token, by the largest number of sequences of a step."""
        return self._per_token(self.decoding)

    @cached_property
    def token_s(self) -> Floats:
        """Least time of the busiest stage per token, by the largest number of tokens of a step."""
        return self._per_token(self.passing)

    @cached_property
    def prompt_token_s(self) -> Floats:
        """Least time of the busiest stage per token of a prompt, by the largest number of tokens of a step."""
        return self._per_token(self.prompts)

    @cached_property
    def decode_step_s(self) -> Floats:
        """Least time through all stages of a step, by its least number of decoding sequences."""
        total: Floats = self.decoding.sum(axis=0)
        return total

    def place(self, counts: Floats | float) -> NDArray[np.int64]:
        """The place of the smallest known count that is at least so large; the last place at most."""
        return np.minimum(np.searchsorted(self.counts, counts), len(self.counts) - 1)

    def most_sequences(self, limit_s: float) -> float:
        """Mean number of sequences of a step at which a step takes as long as a limit; at least 0.

        It is read from a convex minorant, so that it holds for means of different steps.
        """
        low = _convex(self.counts.astype(float), self.decode_step_s)
        fitting = np.nonzero(low <= limit_s)[0]
        if not len(fitting):
            return 0.0
        last = int(fitting[-1])
        if last == len(low) - 1:
            return float("inf")
        here, there = low[last], low[last + 1]
        part = (limit_s - here) / (there - here) if there > here else 1.0
        return float(self.counts[last] + part * (self.counts[last + 1] - self.counts[last]))


def _convex(places: Floats, values: Floats) -> Floats:
    """The largest convex function that is nowhere above some points, at their places."""
    hull: list[int] = []
    for place in range(len(places)):
        while len(hull) > 1 and _above(places, values, hull[-2], hull[-1], place):
            hull.pop()
        hull.append(place)
    found: Floats = np.interp(places, places[hull], values[hull])
    return found


def _above(x: Floats, y: Floats, first: int, middle: int, last: int) -> bool:
    """Whether the middle one of three points is not below the line through the others."""
    slope = (y[last] - y[first]) / (x[last] - x[first])
    return bool(y[middle] >= y[first] + slope * (x[middle] - x[first]))


def _durations(cost: PassCost, counts: NDArray[np.int64]) -> Row:
    """Durations of decode steps and of steps with prompts, and the time per cached token, of one stage."""
    decoding = [ordered_sum(cost.seconds(Batch(n, n, decode_sequences=n))) for n in counts.tolist()]
    prompts = [ordered_sum(cost.seconds(Batch(n, 0.0, attention_pairs=ONE_PAIR))) for n in counts.tolist()]
    slopes = []
    for sequences in (1, 2):
        without = ordered_sum(cost.seconds(Batch(sequences, sequences, decode_sequences=sequences)))
        one = Batch(sequences, sequences, decode_context_tokens=1.0, decode_sequences=sequences)
        slopes.append(max(0.0, ordered_sum(cost.seconds(one)) - without))
    return decoding, prompts, min(slopes)


class Collectives:
    """Times of collectives on idle links, each found once for all engines on equal hardware."""

    def __init__(self) -> None:
        self._groups: dict[tuple[object, ...], Communicator] = {}

    def of(self, pool: ServingJob, group: Group, choose: Choose) -> Communicator:
        """The communicator of a group of a pool."""
        cluster = pool.cluster
        key = id(cluster), group, pool.precision.activation_bytes
        found = self._groups.get(key)
        if found is None:
            network = cluster.platform().network
            found = self._groups[key] = Communicator(group, group.size, network, choose, Environment())
        return found


def _pass_cost(pool: ServingJob, plan: ForwardPass, group: Group, collectives: Collectives) -> PassCost:
    """What passes of a stage cost on idle links."""
    if pool.settings.passes is not None:
        raise UsageError("a search compares layouts, and serving.passes has the times of one layout; remove passes")
    model = pool.execution_model()
    made = collectives.of(pool, group, model.algorithm)
    return PassCost(plan, pool.cluster.spec, model.precision, model.per_layer_s, made.seconds, model.launches)
