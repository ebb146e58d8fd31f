"""Forward passes as a profiler measured them, in place of the costs of kernels and collectives.

Passes with equal new tokens form a curve of their time over what each new token attends to. The curve is the convex
polyline below the points, since the time of a kernel is the largest of bounds that are linear in the context. Between
two curves, times are interpolated by the number of new tokens.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from simsys.costs.pass_cost import PassCost, StepLine
from simsys.costs.segment_cost import SegmentTime
from simsys.costs.step_times import Line
from simsys.model.batch import Batch, attention_pairs
from simsys.model.work import Precision
from simsys.parallel.passes import ForwardPass
from simsys.platform.device_spec import DeviceSpec
from simsys.sums import ordered_sum

NAME = "measured pass"
"""The name of the only segment of such a pass."""
TRIALS = 200
"""At most this number of measurements are left out in turn."""


class MeasuredPass(NamedTuple):
    """A measured forward pass.

    Args:
        sequences: Sequences of the batch.
        new_tokens: Tokens that go through the weights, of all sequences.
        context_tokens: Cached tokens that they read, of all sequences.
        seconds: The time of the pass.
    """

    sequences: int
    new_tokens: int
    context_tokens: int
    seconds: float

    @property
    def decodes(self) -> bool:
        """Whether every sequence has one new token."""
        return self.new_tokens == self.sequences

    @property
    def attended(self) -> float:
        """Cached tokens of a sequence, or query-key pairs of a new token of a prompt, as a mean."""
        context_tokens = self.context_tokens / self.sequences
        if self.decodes:
            return context_tokens
        new_tokens = self.new_tokens / self.sequences
        return attention_pairs(new_tokens, context=context_tokens) / new_tokens


@dataclass(frozen=True)
class Curve:
    """A convex polyline that does not fall: a first line, and bends from which on it is steeper.

    Args:
        first: The first line.
        bends: Where it bends, and by how much.
    """

    first: Line
    bends: tuple[tuple[float, float], ...] = ()

    @classmethod
    def below(cls, points: Sequence[tuple[float, float]]) -> Curve:
        """The curve below points (x, seconds), in order of two or more different x."""
        hull: list[tuple[float, float]] = []
        for point in points:
            while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= _slope(hull[-2], point):
                hull.pop()
            hull.append(point)
        slopes = [max(0.0, _slope(one, other)) for one, other in pairwise(hull)]
        least_s = min(seconds for _, seconds in points) if slopes[0] == 0.0 else hull[0][1]
        bends = [(x, more - less) for (x, _), (less, more) in zip(hull[1:], pairwise(slopes), strict=False)]
        return cls((least_s - slopes[0] * hull[0][0], slopes[0]), tuple(bend for bend in bends if bend[1] > 0.0))

    @property
    def last_slope(self) -> float:
        """Seconds per unit of x at its end."""
        return self.first[1] + ordered_sum(more for _, more in self.bends)


Curves = Mapping[int, Curve]
"""By the number of new tokens."""


class MeasuredPasses:
    """Measured passes of one model on one layout.

    Args:
        rows: The measurements. Equal passes count with the median of their times.

    Raises:
        ValueError: If there are no steps of decoding or of prompts, or new tokens at one context only.
    """

    def __init__(self, rows: Iterable[MeasuredPass]) -> None:
        found: dict[tuple[int, int, int], list[float]] = {}
        for row in rows:
            found.setdefault(row[:3], []).append(row.seconds)
        self.rows = [MeasuredPass(*key, median(each)) for key, each in sorted(found.items())]
        """One row for each kind of pass, by number of sequences, new tokens and context."""
        self._decoding = _curves([row for row in self.rows if row.decodes], "decoding (new_tokens = sequences)")
        self._prompts = _curves([row for row in self.rows if not row.decodes], "prompts (new_tokens > sequences)")

    @property
    def max_sequences(self) -> int:
        """Sequences of the largest measured step of decoding."""
        return max(self._decoding)

    @property
    def max_tokens(self) -> int:
        """New tokens of the largest measured step of prompts."""
        return max(self._prompts)

    @property
    def max_context_tokens(self) -> float:
        """The longest mean context of a sequence."""
        return max(row.context_tokens / row.sequences for row in self.rows)

    def decode_bounds(self, tokens: float) -> list[list[Line]]:
        """Times of steps of decoding over the context of all sequences, as `StepLine.decode`."""
        none = (0.0, 0.0)
        return [[line, none] for line in _lines(self._decoding, tokens)]

    def prompt_bounds(self, tokens: float) -> list[list[tuple[float, float, float]]]:
        """Times of steps with prompts over their query-key pairs, as `StepLine.prompt`."""
        none = (0.0, 0.0, 0.0)
        return [[(fixed_s, slope_s, 0.0), none] for fixed_s, slope_s in _lines(self._prompts, tokens)]

    @cached_property
    def per_context_token_s(self) -> float:
        """Time per cached token of sequences that decode beside prompts: of the largest measured step."""
        return self._decoding[self.max_sequences].last_slope / self.max_sequences

    def seconds(self, row: MeasuredPass) -> float:
        """The time of a pass by the curves."""
        x = row.attended * row.new_tokens
        lines = _lines(self._decoding if row.decodes else self._prompts, row.new_tokens)
        return ordered_sum(max(0.0, fixed_s + slope_s * x) for fixed_s, slope_s in lines)

    def errors(self) -> list[float]:
        """Relative errors of passes predicted from all other ones, where these lie around them."""
        found = []
        for place in range(0, len(self.rows), max(1, len(self.rows) // TRIALS)):
            row = self.rows[place]
            others = self.rows[:place] + self.rows[place + 1 :]
            alike = [each for each in others if each.decodes == row.decodes]
            same = [each.attended for each in alike if each.new_tokens == row.new_tokens]
            between = bool(same) and min(same) < row.attended < max(same)
            if not between and not _around(row.new_tokens, [each.new_tokens for each in alike]):
                continue
            if not between or len(same) == 1:
                others = [each for each in others if each.decodes != row.decodes or each.new_tokens != row.new_tokens]
            found.append(abs(MeasuredPasses(others).seconds(row) / row.seconds - 1.0))
        return found


class MeasuredPassCost(PassCost):
    """Costs of measured passes: computation only, since a measurement does not say what of it is communication.

    Args:
        passes: The measurements.
        plan: The rank's share of the model.
        spec: Its device; a slower one takes longer in proportion.
        precision: Bytes per element and dtype.
    """

    def __init__(self, passes: MeasuredPasses, plan: ForwardPass, spec: DeviceSpec, precision: Precision) -> None:
        super().__init__(ForwardPass(plan.name, ()), spec, precision, 0.0, lambda kind, nbytes: 0.0)
        self._passes, self._speed = passes, spec.speed

    def by_segment(self, batch: Batch) -> list[tuple[int, list[SegmentTime]]]:
        """One segment without a collective."""
        return [(1, [SegmentTime(NAME, self.seconds(batch)[0], None, 0.0)])]

    def _token_costs(self, tokens: float, prompts: bool, alone: bool) -> StepLine:
        """Costs of passes with a number of tokens, cached from now on."""
        passes, slower = self._passes, 1.0 / self._speed
        if prompts:
            decode = [[(0.0, passes.per_context_token_s), (0.0, 0.0)]]
            of_prompts = passes.prompt_bounds(tokens)
        else:
            decode, of_prompts = passes.decode_bounds(tokens), []
        prompt = [[(a * slower, b * slower, c * slower) for a, b, c in bounds] for bounds in of_prompts]
        decode = [[(a * slower, b * slower) for a, b in bounds] for bounds in decode]
        found = self._of_tokens[2 * prompts + alone][tokens] = StepLine.of(0.0, 0.0, prompt, decode)
        return found


def _curves(rows: Sequence[MeasuredPass], what: str) -> dict[int, Curve]:
    """A curve for each number of new tokens."""
    if not rows:
        raise ValueError(f"no passes of {what}; both kinds are needed")
    points: dict[int, dict[float, list[float]]] = {}
    for row in rows:
        points.setdefault(row.new_tokens, {}).setdefault(row.attended, []).append(row.seconds)
    for new_tokens, each in points.items():
        if len(each) == 1:
            raise ValueError(
                f"passes of {what} with {new_tokens:,} new tokens at one context only; each number of new tokens "
                "needs two contexts or more, as the time per token of context is unknown otherwise"
            )
    return {
        new_tokens: Curve.below([(x, median(times)) for x, times in sorted(each.items())])
        for new_tokens, each in sorted(points.items())
    }


def _lines(curves: Curves, tokens: float) -> list[Line]:
    """Lines over what all tokens attend to, of whose positive parts the time is the sum; between curves, of both."""
    known = list(curves)
    place = bisect_left(known, tokens)
    if place in (0, len(known)) or known[place] == tokens:
        weights = {known[min(place, len(known) - 1)]: 1.0}
    else:
        low, high = known[place - 1], known[place]
        share = (tokens - low) / (high - low)
        weights = {low: 1.0 - share, high: share}
    fixed_s = ordered_sum(weight * curves[each].first[0] for each, weight in weights.items())
    slope_s = ordered_sum(weight * curves[each].first[1] for each, weight in weights.items()) / tokens
    bends = [
        (-weight * more * x, weight * more / tokens) for n, weight in weights.items() for x, more in curves[n].bends
    ]
    return [(fixed_s, slope_s), *bends]


def _around(value: int, others: Sequence[int]) -> bool:
    return min(others, default=value) < value < max(others, default=value)


def _slope(one: tuple[float, float], other: tuple[float, float]) -> float:
    return (other[1] - one[1]) / (other[0] - one[0])
