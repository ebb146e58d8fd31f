"""Durations of forward passes, shared by all levels of detail: what high adds up by segment, medium sums at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from simsys.collectives.base import CollectiveKind
from simsys.costs.launches import NO_LAUNCHES, Launches
from simsys.costs.segment_cost import PromptBound, Rates, SegmentCost, SegmentTime
from simsys.costs.step_times import Line, StepTimes
from simsys.model.batch import Batch, batch_of
from simsys.model.operators import OperatorKind
from simsys.model.work import Precision
from simsys.parallel.passes import ForwardPass
from simsys.parallel.segments import Segment
from simsys.platform.device_spec import DeviceSpec

CollectiveSeconds = Callable[[CollectiveKind, float], float]


class StepLine(NamedTuple):
    """Costs of a step by its numbers of tokens and logits, as a line in its context, bound by bound.

    Args:
        compute_s: Kernels that do not depend on the context, and the host overhead of the layers.
        exchange_s: Collectives.
        prompt: The bounds of each kernel that reads the context of prompts.
        decode: The bounds of each kernel that reads the context of decoding sequences, by bytes and by FLOP: a
            constant, and a slope per cached token.
        steepest_from: The decode context from which the steepest bound of each kernel of `decode` is the largest.
        steepest_s: The sum of these bounds without context.
        per_token_s: Slope of this sum per cached token.
    """

    compute_s: float
    exchange_s: float
    prompt: list[list[PromptBound]]
    decode: list[list[Line]]
    steepest_from: float
    steepest_s: float
    per_token_s: float

    @classmethod
    def of(
        cls, compute_s: float, exchange_s: float, prompt: list[list[PromptBound]], decode: list[list[Line]]
    ) -> StepLine:
        """The line with these costs; arguments as its own."""
        steepest_from = steepest_s = per_token_s = 0.0
        for (one_s, by_one_s), (other_s, by_other_s) in decode:
            if (by_other_s, other_s) > (by_one_s, one_s):
                one_s, by_one_s, other_s, by_other_s = other_s, by_other_s, one_s, by_one_s
            steepest_s += one_s
            per_token_s += by_one_s
            if by_one_s > by_other_s and other_s - one_s > steepest_from * (by_one_s - by_other_s):
                steepest_from = (other_s - one_s) / (by_one_s - by_other_s)
        return cls(compute_s, exchange_s, prompt, decode, steepest_from, steepest_s, per_token_s)


class PassCost:
    """Costs of forward passes of one rank.

    Args:
        plan: The rank's share of the model.
        spec: Its device.
        precision: Bytes per element and dtype of the kernels.
        per_layer_s: Host overhead of each layer, in seconds.
        collective_s: Duration of a collective of the team in seconds, by kind and bytes.
        launches: Kernel launches of passes.
    """

    def __init__(
        self,
        plan: ForwardPass,
        spec: DeviceSpec,
        precision: Precision,
        per_layer_s: float,
        collective_s: CollectiveSeconds,
        launches: Launches = NO_LAUNCHES,
    ) -> None:
        self._collective_s, self._launches = collective_s, launches
        rates: Rates = {}

        cached_token_s = launches.cached_token_s / max(1, _decode_kernels(plan))

        def costs(segments: Iterable[Segment]) -> list[SegmentCost]:
            return [
                SegmentCost(each, spec, precision, per_layer_s, launches, rates, cached_token_s) for each in segments
            ]

        self._stretches = [(each.name, each.repeat, costs(each.segments)) for each in plan.stretches]
        self._segments = [(float(n), segment) for _, n, segments in self._stretches for segment in segments]
        self._exchanging = [
            (n, segment, segment.exchange) for n, segment in self._segments if segment.exchange is not None
        ]
        self._prompt = [(n, kernel) for n, segment in self._segments for kernel in segment.prompt]
        self._decode = [(n, kernel) for n, segment in self._segments for kernel in segment.decode]
        self._heads = [(n, segment) for n, segment in self._segments if segment.per_logit]
        self._lines: dict[tuple[float, float, bool, bool], StepLine] = {}
        self._of_tokens: tuple[dict[float, StepLine], ...] = ({}, {}, {}, {})  # with prompts or not, alone or not
        self._of_logits: dict[float, tuple[float, float]] = {}

    def by_segment(self, batch: Batch) -> list[tuple[int, list[SegmentTime]]]:
        """The definition of a pass's duration: for every repeated part, how often, and the times of its segments."""
        return [
            (repeat, [self._time(name, segment, batch) for segment in segments])
            for name, repeat, segments in self._stretches
        ]

    def exchanges(self, batch: Batch) -> Iterator[tuple[CollectiveKind, float, int]]:
        """The collectives of one pass: kind, bytes, and how many."""
        for _, repeat, segments in self._stretches:
            for segment in segments:
                if segment.exchange is not None:
                    yield segment.exchange.kind, segment.exchange_bytes(batch), repeat

    def seconds(self, batch: Batch) -> tuple[float, float]:
        """Seconds of computation and of communication of one pass in serving: the sum of `by_segment` at once."""
        # Few passes have the same tokens and logits, so nothing is kept of both together. This runs for every prompt.
        tokens, logits, pairs, prompt_context, context, decoding, _, _, verified, _ = batch
        kept = self._of_tokens[2 * (pairs > 0.0) + (decoding == 1)]
        of_tokens = kept[tokens] if tokens in kept else self._token_costs(tokens, pairs > 0.0, decoding == 1)
        head_s, head_exchange_s = self._of_logits[logits] if logits in self._of_logits else self._logit_costs(logits)
        seconds, exchange_s, prompt_kernels, decode_kernels, steepest_from, steepest_s, per_token_s = of_tokens
        seconds += head_s
        if decoding:
            if context >= steepest_from and not verified:
                seconds += steepest_s + per_token_s * context
            else:
                # Bytes are read for the context; FLOP are also computed for pairs with the tokens of drafts.
                computed = context + verified
                for (fixed_s, token_s), (flop_fixed_s, flop_token_s) in decode_kernels:
                    by_bytes_s, by_flop_s = fixed_s + token_s * context, flop_fixed_s + flop_token_s * computed
                    seconds += by_bytes_s if by_bytes_s > by_flop_s else by_flop_s
        for (fixed_s, pair_s, token_s), (flop_fixed_s, flop_pair_s, flop_token_s) in prompt_kernels:
            by_bytes_s = fixed_s + pair_s * pairs + token_s * prompt_context
            by_flop_s = flop_fixed_s + flop_pair_s * pairs + flop_token_s * prompt_context
            seconds += by_bytes_s if by_bytes_s > by_flop_s else by_flop_s
        return seconds, exchange_s + head_exchange_s

    def times(self, batch: Batch, more: Batch, host_s: float) -> StepTimes:
        """Durations of consecutive passes with growing context, with a closed form of their sum.

        Args:
            batch: The batch of the first pass.
            more: Context and pairs that each pass adds to the next one's.
            host_s: Host time before each pass, in seconds.
        """
        tokens, logits, pairs, prompt_context, context, decoding, _, _, verified, _ = batch
        _, _, more_pairs, more_prompt_context, more_context, _, _, _, more_verified, _ = more
        key = tokens, logits, pairs > 0.0, decoding == 1
        line = self._lines[key] if key in self._lines else self.costs(*key)
        compute_s, exchange_s, prompt_kernels, decode_kernels, steepest_from, steepest_s, per_token_s = line
        idle_s = exchange_s + host_s
        times = StepTimes(compute_s + idle_s, 0.0, idle_s)
        if decoding and context >= steepest_from and not verified:
            times.first_s += steepest_s + per_token_s * context
            times.growth_s = per_token_s * more_context
        elif decoding:
            computed, more_computed = context + verified, more_context + more_verified
            for (fixed_s, token_s), (flop_fixed_s, flop_token_s) in decode_kernels:
                times.add_larger(
                    fixed_s + token_s * context,
                    token_s * more_context,
                    flop_fixed_s + flop_token_s * computed,
                    flop_token_s * more_computed,
                )
        for (fixed_s, pair_s, token_s), (flop_fixed_s, flop_pair_s, flop_token_s) in prompt_kernels:
            times.add_larger(
                fixed_s + pair_s * pairs + token_s * prompt_context,
                pair_s * more_pairs + token_s * more_prompt_context,
                flop_fixed_s + flop_pair_s * pairs + flop_token_s * prompt_context,
                flop_pair_s * more_pairs + flop_token_s * more_prompt_context,
            )
        return times

    def costs(self, tokens: float, logits: float, prompts: bool, alone: bool) -> StepLine:
        """Costs of passes for any context; cached.

        The parts for tokens and for logits are cached separately, since combinations are more numerous.

        Args:
            tokens: Tokens of the pass.
            logits: Tokens that pass the head.
            prompts: True if there are prompts among them.
            alone: True if a single sequence decodes, without waiting for longer ones.
        """
        key = tokens, logits, prompts, alone
        found = self._lines.get(key)
        if found is None:
            of_tokens = self._of_tokens[2 * prompts + alone].get(tokens) or self._token_costs(tokens, prompts, alone)
            head = self._of_logits.get(logits) or self._logit_costs(logits)
            found = self._lines[key] = StepLine(
                of_tokens.compute_s + head[0], of_tokens.exchange_s + head[1], *of_tokens[2:]
            )
        return found

    def _token_costs(self, tokens: float, prompts: bool, alone: bool) -> StepLine:
        """Costs of passes with a number of tokens without the head, cached from now on."""
        count = float(tokens)  # since floats are multiplied faster by floats
        compute_s, exchange_s = self._token_seconds(count, prompts)
        prompt = [kernel.prompt_bounds(count, n) for n, kernel in self._prompt] if prompts else []
        decode = [kernel.decode_bounds(count, n, alone) for n, kernel in self._decode]
        line = StepLine.of(compute_s, exchange_s, prompt, decode)
        found = self._of_tokens[2 * prompts + alone][tokens] = line
        return found

    def _logit_costs(self, logits: float) -> tuple[float, float]:
        """Costs of the head, cached from now on."""
        batch, empty = Batch(logits=logits), Batch()
        compute_s = exchange_s = 0.0
        for repeat, segment in self._heads:
            compute_s += repeat * (segment.token_seconds(batch) - segment.token_seconds(empty))
            if segment.exchange is not None and segment.exchange.per_logit:
                exchange_s += repeat * self._collective_s(segment.exchange.kind, segment.exchange_bytes(batch))
        found = self._of_logits[logits] = compute_s, exchange_s
        return found

    def _token_seconds(self, tokens: float, prompts: bool) -> tuple[float, float]:
        """What depends on the number of tokens alone: seconds of computation and of communication."""
        batch = batch_of((tokens, 0.0, 1.0 if prompts else 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, False))
        compute_s, exchange_s, per_layer = 0.0, 0.0, self._launches.per_layer(tokens, prompts)
        for repeat, segment in self._segments:
            compute_s += repeat * segment.computed_token_seconds(batch, per_layer)
        for repeat, segment, exchange in self._exchanging:
            exchange_s += repeat * self._collective_s(exchange.kind, segment.exchange_bytes(batch))
        return compute_s, exchange_s

    @staticmethod
    def _time(name: str, segment: SegmentCost, batch: Batch) -> SegmentTime:
        kind = segment.exchange.kind if segment.exchange is not None else None
        return SegmentTime(name, segment.compute_seconds(batch), kind, segment.exchange_bytes(batch))


def _decode_kernels(plan: ForwardPass) -> int:
    """Number of kernels of a pass that read the context of decoding sequences."""
    return sum(
        stretch.repeat * sum(operator.kind is OperatorKind.DECODE_ATTENTION for operator in segment.operators)
        for stretch in plan.stretches
        for segment in stretch.segments
    )
