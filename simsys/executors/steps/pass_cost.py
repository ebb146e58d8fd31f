"""Durations of passes, shared by all levels of detail: what high adds up event by event, medium sums at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from simsys.collectives.base import CollectiveKind
from simsys.executors.steps.launches import NO_LAUNCHES, Launches
from simsys.executors.steps.segment_cost import PromptBound, SegmentCost, SegmentTime
from simsys.executors.steps.step_times import Line, StepTimes
from simsys.model.batch import Batch
from simsys.model.work import Precision
from simsys.parallel.passes import ForwardPass
from simsys.parallel.segments import Segment
from simsys.platform.device_spec import DeviceSpec

CollectiveSeconds = Callable[[CollectiveKind, float], float]


class StepCosts(NamedTuple):
    """What a step costs by its numbers of tokens and logits, and what its context adds.

    Args:
        compute_s: Kernels that do not depend on the context, and the host overhead of the layers.
        exchange_s: Collectives.
        prompt: The bounds of each kernel that reads the context of prompts.
        decode: Likewise, of decoding sequences: a constant, and what each cached token adds.
        steepest_from: The decode context from which the steepest bound of each kernel of `decode` is the largest.
        steepest_s: These bounds together, without context.
        per_token_s: What each cached token adds to them.
    """

    compute_s: float
    exchange_s: float
    prompt: list[list[PromptBound]]
    decode: list[list[Line]]
    steepest_from: float
    steepest_s: float
    per_token_s: float


class PassCost:
    """Times of a forward pass, stretch by stretch."""

    def __init__(
        self,
        plan: ForwardPass,
        spec: DeviceSpec,
        precision: Precision,
        per_layer_s: float,
        launches: Launches = NO_LAUNCHES,
    ) -> None:
        def costs(segments: Iterable[Segment]) -> list[SegmentCost]:
            return [SegmentCost(segment, spec, precision, per_layer_s, launches) for segment in segments]

        self._stretches = [(each.name, each.repeat, costs(each.segments)) for each in plan.stretches]
        self._attending = [
            (n, segment) for _, n, segments in self._stretches for segment in segments if segment.attends
        ]
        self._heads = [(n, segment) for _, n, segments in self._stretches for segment in segments if segment.per_logit]
        self._kept: dict[tuple[float, float, bool], tuple[float, float]] = {}
        self._kept_steps: dict[tuple[float, float, bool, bool], StepCosts] = {}
        self._of_tokens: tuple[dict[float, StepCosts], ...] = ({}, {}, {}, {})  # with prompts or not, alone or not
        self._of_logits: dict[float, tuple[float, float]] = {}

    def stretches(self, batch: Batch) -> list[tuple[int, list[SegmentTime]]]:
        """For every stretch, how often it repeats and the times of its segments."""
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

    def seconds(self, batch: Batch, collective_s: CollectiveSeconds) -> tuple[float, float]:
        """Seconds of computation and of communication of one pass.

        Args:
            batch: What the pass processes.
            collective_s: Duration of a collective of the team, by kind and bytes; the same at every call.
        """
        key = batch.tokens, batch.logits, batch.attention_pairs > 0.0
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = self._token_seconds(batch, collective_s)
        compute_s, exchange_s = kept
        for repeat, segment in self._attending:
            compute_s += repeat * segment.context_seconds(batch)
        return compute_s, exchange_s

    def step_costs(
        self, tokens: float, logits: float, prompts: bool, collective_s: CollectiveSeconds, *, alone: bool
    ) -> StepCosts:
        """What passes with so many tokens cost, with or without prompts among them; put together only once.

        If one sequence decodes `alone`, its attention does not wait for longer ones.

        What depends on the tokens and what on the logits have fewer values than both together.
        """
        key = tokens, logits, prompts, alone
        found = self._kept_steps.get(key)
        if found is None:
            of_tokens = self._of_tokens[2 * prompts + alone].get(tokens) or self._token_costs(
                tokens, prompts, alone, collective_s
            )
            head = self._of_logits.get(logits) or self._logit_costs(logits, collective_s)
            found = self._kept_steps[key] = StepCosts(
                of_tokens.compute_s + head[0], of_tokens.exchange_s + head[1], *of_tokens[2:]
            )
        return found

    def step_seconds(self, batch: Batch, collective_s: CollectiveSeconds) -> tuple[float, float]:
        """As `seconds`, of a batch in serving; what its context adds comes from the bounds of its kernels."""
        # Few passes have the same tokens and logits, so nothing is kept of both together.
        tokens, logits, pairs, prompt_context, context, decoding, *_ = batch
        kept = self._of_tokens[2 * (pairs > 0.0) + (decoding == 1)]
        of_tokens = (
            kept[tokens] if tokens in kept else self._token_costs(tokens, pairs > 0.0, decoding == 1, collective_s)
        )
        head_s, head_exchange_s = (
            self._of_logits[logits] if logits in self._of_logits else self._logit_costs(logits, collective_s)
        )
        seconds, exchange_s, prompt_kernels, decode_kernels, steepest_from, steepest_s, per_token_s = of_tokens
        seconds += head_s
        if decoding:
            if context >= steepest_from:
                seconds += steepest_s + per_token_s * context
            else:
                for kernel in decode_kernels:
                    seconds += max([fixed_s + token_s * context for fixed_s, token_s in kernel])
        for (fixed_s, pair_s, token_s), (flop_fixed_s, flop_pair_s, flop_token_s) in prompt_kernels:
            by_bytes_s = fixed_s + pair_s * pairs + token_s * prompt_context
            by_flop_s = flop_fixed_s + flop_pair_s * pairs + flop_token_s * prompt_context
            seconds += by_bytes_s if by_bytes_s > by_flop_s else by_flop_s
        return seconds, exchange_s + head_exchange_s

    def step_times(self, batch: Batch, more: Batch, host_s: float, collective_s: CollectiveSeconds) -> StepTimes:
        """Durations of consecutive passes, of which each finds the context that those before have added.

        Args:
            batch: What the first pass processes.
            more: Context and pairs that each pass adds to the next one's.
            host_s: Host time before each pass.
            collective_s: As in `seconds`.
        """
        tokens, logits, pairs, prompt_context, context, decoding, _, _, verified, _ = batch
        costs = self.step_costs(tokens, logits, pairs > 0.0, collective_s, alone=decoding == 1)
        idle_s = costs.exchange_s + host_s
        times = StepTimes(costs.compute_s + idle_s, 0.0, idle_s)
        if decoding and context >= costs.steepest_from and not verified:
            times.first_s += costs.steepest_s + costs.per_token_s * context
            times.growth_s = costs.per_token_s * more.decode_context_tokens
        elif decoding:
            # What is read is context; what is computed, also pairs with the tokens of drafts.
            computed, more_computed = context + verified, more.decode_context_tokens + more.verified_pairs
            for (byte_fixed_s, byte_s), (flop_fixed_s, flop_s) in costs.decode:
                by_bytes = byte_fixed_s + byte_s * context, byte_s * more.decode_context_tokens
                times.add([by_bytes, (flop_fixed_s + flop_s * computed, flop_s * more_computed)])
        if pairs > 0.0:
            for bounds in costs.prompt:
                times.add(
                    [
                        (
                            fixed_s + pair_s * pairs + token_s * prompt_context,
                            pair_s * more.attention_pairs + token_s * more.prompt_context_tokens,
                        )
                        for fixed_s, pair_s, token_s in bounds
                    ]
                )
        return times

    def _token_costs(self, tokens: float, prompts: bool, alone: bool, collective_s: CollectiveSeconds) -> StepCosts:
        """What passes with so many tokens cost without the head, from now on kept."""
        sequences = 1 if alone else 2
        batch = Batch(tokens=tokens, attention_pairs=1.0 if prompts else 0.0)
        compute_s, exchange_s = self._token_seconds(batch, collective_s)
        prompt = [kernel for n, segment in self._attending if prompts for kernel in segment.prompt_bounds(tokens, n)]
        decode = [kernel for n, segment in self._attending for kernel in segment.decode_bounds(tokens, n, sequences)]
        steepest_from = steepest_s = per_token_s = 0.0
        for (one_s, by_one_s), (other_s, by_other_s) in decode:
            if (by_other_s, other_s) > (by_one_s, one_s):
                one_s, by_one_s, other_s, by_other_s = other_s, by_other_s, one_s, by_one_s
            steepest_s += one_s
            per_token_s += by_one_s
            if by_one_s > by_other_s and other_s - one_s > steepest_from * (by_one_s - by_other_s):
                steepest_from = (other_s - one_s) / (by_one_s - by_other_s)
        found = self._of_tokens[2 * prompts + alone][tokens] = StepCosts(
            compute_s, exchange_s, prompt, decode, steepest_from, steepest_s, per_token_s
        )
        return found

    def _logit_costs(self, logits: float, collective_s: CollectiveSeconds) -> tuple[float, float]:
        """What the head adds, from now on kept."""
        batch, empty = Batch(logits=logits), Batch()
        compute_s = exchange_s = 0.0
        for repeat, segment in self._heads:
            compute_s += repeat * (segment.token_seconds(batch) - segment.token_seconds(empty))
            if segment.exchange is not None and segment.exchange.per_logit:
                exchange_s += repeat * collective_s(segment.exchange.kind, segment.exchange_bytes(batch))
        found = self._of_logits[logits] = compute_s, exchange_s
        return found

    def _token_seconds(self, batch: Batch, collective_s: CollectiveSeconds) -> tuple[float, float]:
        """The part of `seconds` that depends on the token counts alone."""
        compute_s = exchange_s = 0.0
        for _, repeat, segments in self._stretches:
            for segment in segments:
                compute_s += repeat * segment.token_seconds(batch)
                if segment.exchange is not None:
                    exchange_s += repeat * collective_s(segment.exchange.kind, segment.exchange_bytes(batch))
        return compute_s, exchange_s

    @staticmethod
    def _time(name: str, segment: SegmentCost, batch: Batch) -> SegmentTime:
        kind = segment.exchange.kind if segment.exchange is not None else None
        return SegmentTime(name, segment.compute_seconds(batch), kind, segment.exchange_bytes(batch))
