"""Costs of one segment of a forward pass for any batch: computation, and bytes of its collective."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from simsys.collectives.base import CollectiveKind
from simsys.costs.launches import NO_LAUNCHES, Launches, PerLayer
from simsys.costs.step_times import Line
from simsys.errors import InternalError
from simsys.model.batch import Batch
from simsys.model.operators import Operator, OperatorKind
from simsys.model.work import ATTENTION, DECODE_ATTENTION, Precision, amounts
from simsys.parallel.segments import Segment
from simsys.platform.device_spec import DeviceSpec, KernelRates, alignment

UNIT = 2.0**20
"""Of context, for slopes: large, so that what does not depend on it leaves no rounding in the difference."""


Amounts = tuple[float, float]
"""FLOP and bytes."""
PromptBound = tuple[float, float, float]
"""A lower limit of a kernel in seconds: a constant, and slopes per query-key pair and per cached token."""


Rates = dict[tuple[OperatorKind, str, float, bool, str], KernelRates]
"""The speeds of a device that have been asked for, by kind of kernels, dtype, alignment, grouping and role."""


class SegmentCost:
    """Duration of a segment for any batch.

    Most operators depend on the token counts alone, which repeat from step to step, so their sum is kept. Prompt
    attention depends on the prompts and decode attention on the context; they are computed anew when present.
    """

    __slots__ = (
        "_activation_bytes",
        "_attending",
        "_by_logits",
        "_by_tokens",
        "_kept",
        "_launches",
        "_layers",
        "decode",
        "exchange",
        "layers_s",
        "prompt",
    )

    def __init__(
        self,
        segment: Segment,
        spec: DeviceSpec,
        precision: Precision,
        per_layer_s: float,
        launches: Launches = NO_LAUNCHES,
        rates: Rates | None = None,
        cached_token_s: float = 0.0,
    ) -> None:
        rates = {} if rates is None else rates

        def costs(prompts: bool) -> list[_OperatorCost]:
            costed = (operator.costed(prompts=prompts) for operator in segment.operators)
            return [_OperatorCost(operator, spec, precision, rates, cached_token_s) for operator in costed]

        with_prompts = costs(True)
        # Where macro operations say nothing else, an operator costs the same in both kinds of passes.
        without = with_prompts if all(each.scales is None for each in segment.operators) else costs(False)
        self.prompt, self.decode, others = _by_context(with_prompts)
        """Its kernels that read the context of prompts, and of decoding sequences."""
        self._attending = self.prompt + self.decode
        # Without prompts, the amounts of prompt attention depend on the token counts too.
        prompt, _, plain = _by_context(without)
        self._by_tokens, self._by_logits = {}, {}
        for prompts, found in ((True, others), (False, plain + prompt)):
            self._by_tokens[prompts] = _Kernels([each for each in found if not each.per_logit])
            self._by_logits[prompts] = _Kernels([each for each in found if each.per_logit])
        self._activation_bytes = precision.activation_bytes
        self._kept: dict[tuple[float, float, bool], float] = {}
        self._launches, self._layers = launches, segment.launches
        self.exchange = segment.exchange
        self.layers_s = segment.layers * per_layer_s * spec.kernel_gap

    @property
    def per_logit(self) -> bool:
        """Whether some of it depends on the tokens that go through the head."""
        exchange = self.exchange
        return self._by_logits[True].any or (exchange is not None and exchange.per_logit)

    def compute_seconds(self, batch: Batch) -> float:
        """Seconds of computation, host overhead of the layers included."""
        return self.token_seconds(batch) + self.context_seconds(batch)

    def token_seconds(self, batch: Batch) -> float:
        """The part that depends on the token counts, and on whether there are prompts, alone; kept."""
        key = batch.tokens, batch.logits, batch.attention_pairs > 0.0
        seconds = self._kept.get(key)
        if seconds is None:
            per_layer = self._launches.per_layer(batch.tokens, batch.attention_pairs > 0.0)
            seconds = self._kept[key] = self.computed_token_seconds(batch, per_layer)
        return seconds

    def computed_token_seconds(self, batch: Batch, per_layer: PerLayer) -> float:
        """As `token_seconds`, but not kept: for costs of passes, which keep the sum over segments.

        Args:
            batch: The batch.
            per_layer: What launches cost its pass.
        """
        tokens, logits, pairs, *_ = batch
        by_tokens, by_logits = self._by_tokens[pairs > 0.0], self._by_logits[pairs > 0.0]
        seconds = by_tokens.seconds(batch, tokens) if by_tokens.any else 0.0
        # The host launches kernels ahead of the GPU; where they are shorter than their launches, these bind.
        launches_s, more_s = per_layer
        launches_s *= self._layers
        seconds = self.layers_s + self._layers * more_s + (seconds if seconds > launches_s else launches_s)
        return seconds + by_logits.seconds(batch, logits) if logits or by_logits.others else seconds

    def context_seconds(self, batch: Batch) -> float:
        """The part that depends on the context."""
        return _seconds(self._attending if batch.attention_pairs > 0.0 else self.decode, batch)

    def exchange_bytes(self, batch: Batch) -> float:
        """Bytes of the collective that follows; 0 if none does."""
        return 0.0 if self.exchange is None else self.exchange.nbytes(batch, self._activation_bytes)


class _OperatorCost:
    """The kernel of an operator for any batch, with what does not depend on the batch worked out beforehand.

    Args:
        operator: The operator.
        spec: The device.
        precision: Of weights, activations and KV cache.
        rates: Of kernels, some of them found already.
        cached_token_s: Time of the host per cached token, of a kernel for decode attention.
    """

    __slots__ = (
        "_bytes_per_weight",
        "_cached_token_s",
        "_feasible",
        "_of_decoding",
        "_of_prompts",
        "_of_token",
        "_precision",
        "linear",
        "operator",
        "per_logit",
        "rates",
    )

    def __init__(
        self,
        operator: Operator,
        spec: DeviceSpec,
        precision: Precision,
        rates: Rates,
        cached_token_s: float = 0.0,
    ) -> None:
        if operator.window:
            raise InternalError(f"the window of {operator.name} was not resolved before its cost was asked for")
        aligned = alignment(operator.columns, operator.inner, spec.matrix_unit)
        key = operator.kind, precision.dtype(operator), aligned, operator.grouped, operator.role
        if key not in rates:
            rates[key] = KernelRates(spec, *key)
        self.operator, self.rates, self.per_logit = operator, rates[key], operator.per_logit
        self._cached_token_s = cached_token_s if operator.kind is DECODE_ATTENTION else 0.0
        self._precision, self._bytes_per_weight = precision, precision.bytes_per_weight(operator)
        self.linear: tuple[float, float, float] | None = None
        """FLOP of a token, bytes of the weights and bytes of a token, where there is no more to it."""
        attends = operator.kind in (ATTENTION, DECODE_ATTENTION)
        self._feasible = self.rates.computes or not operator.flop_per_token
        if not attends and operator.experts == operator.adapters == 1 and self._feasible:
            token_bytes = operator.elements_per_token * precision.activation_bytes
            weight_bytes = operator.parameters_read(1.0) * self._bytes_per_weight
            self.linear = float(operator.flop_per_token), float(weight_bytes), float(token_bytes)
        self._of_token = *(self._amounts(Batch(1.0)) if attends else (0.0, 0.0)), float(operator.rows_per_token)
        # Slopes per query-key pair of prompts, and per cached token read by prompts.
        self._of_prompts = (
            self._added(Batch(1.0, attention_pairs=UNIT)),
            self._added(Batch(1.0, prompt_context_tokens=UNIT)),
        )
        # Slopes per cached token read by several decoding sequences, and by one.
        more, one = (self._added(Batch(1.0, decode_context_tokens=UNIT, decode_sequences=each)) for each in (2.0, 1.0))
        self._of_decoding = more, one

    def _amounts(self, batch: Batch) -> Amounts:
        return amounts(self.operator, batch, self._precision, self._bytes_per_weight)[:2]

    def _added(self, batch: Batch) -> Amounts:
        """Additional cost of each `UNIT` of a batch's context."""
        before = self._amounts(Batch(tokens=1.0, decode_sequences=batch.decode_sequences))
        after = self._amounts(batch)
        return (after[0] - before[0]) / UNIT, (after[1] - before[1]) / UNIT

    def prompt_bounds(self, tokens: float, repeat: float) -> list[PromptBound]:
        """The bounds of `repeat` kernels that read the context of prompts, by bytes and by FLOP."""
        by_bytes_s, by_flop_s, byte_s, flop_s = self._bounds(tokens, repeat)
        (pair_flop, pair_bytes), (token_flop, token_bytes) = self._of_prompts
        return [
            (by_bytes_s, pair_bytes * byte_s, token_bytes * byte_s),
            (by_flop_s, pair_flop * flop_s, token_flop * flop_s),
        ]

    def decode_bounds(self, tokens: float, repeat: float, alone: bool) -> list[Line]:
        """The bounds of `repeat` kernels that read the context of decoding sequences, by bytes and by FLOP.

        Whether there is one or several makes a difference, but not how many.
        """
        by_bytes_s, by_flop_s, byte_s, flop_s = self._bounds(tokens, repeat)
        token_flop, token_bytes = self._of_decoding[alone]
        more_s = repeat * self._cached_token_s
        return [(by_bytes_s, token_bytes * byte_s + more_s), (by_flop_s, token_flop * flop_s + more_s)]

    def _bounds(self, tokens: float, repeat: float) -> tuple[float, float, float, float]:
        """Lower limits of `repeat` attention kernels without context, by bytes and by FLOP, and their slopes."""
        flop, nbytes, rows = self._of_token
        if not self._feasible:
            raise self.rates.refusal()
        floor_s, byte_s, flop_s = self.rates.reach(tokens * rows)
        by_bytes_s, by_flop_s = floor_s + nbytes * tokens * byte_s, floor_s + flop * tokens * flop_s
        return repeat * by_bytes_s, repeat * by_flop_s, repeat * byte_s, repeat * flop_s

    def seconds(self, batch: Batch) -> float:
        """Its duration; zero without work."""
        flop, nbytes, rows = amounts(self.operator, batch, self._precision, self._bytes_per_weight)
        if not (flop or nbytes):
            return 0.0
        by_bytes_s, by_flop_s = self.rates.bounds(flop, nbytes, rows)
        context, more_s = batch.decode_context_tokens, self._cached_token_s
        return max(by_bytes_s + more_s * context, by_flop_s + more_s * (context + batch.verified_pairs))


class _Kernels:
    """Kernels, of which most depend on the number of tokens alone; their durations are one sum."""

    __slots__ = ("_linear", "any", "others")

    def __init__(self, costs: Sequence[_OperatorCost]) -> None:
        linear: dict[tuple[KernelRates, float], list[tuple[float, float, float]]] = {}
        for cost in costs:
            if cost.linear is not None and any(cost.linear):
                linear.setdefault((cost.rates, cost.operator.rows_per_token), []).append(cost.linear)
        self._linear = [(rates, float(rows_per_token), each) for (rates, rows_per_token), each in linear.items()]
        self.others = [cost for cost in costs if cost.linear is None]
        """Those that depend on more."""
        self.any = bool(costs)

    def seconds(self, batch: Batch, tokens: float) -> float:
        """Their total duration; zero without work."""
        total_s = _seconds(self.others, batch) if self.others else 0.0
        if not tokens or not self._linear:
            return total_s
        for rates, rows_per_token, kernels in self._linear:
            floor_s, byte_s, flop_s = rates.reach(tokens * rows_per_token)
            for flop, weight_bytes, nbytes in kernels:
                by_bytes_s, by_flop_s = (weight_bytes + nbytes * tokens) * byte_s, flop * tokens * flop_s
                total_s += floor_s + (by_bytes_s if by_bytes_s > by_flop_s else by_flop_s)
        return total_s


def _by_context(
    costs: Iterable[_OperatorCost],
) -> tuple[list[_OperatorCost], list[_OperatorCost], list[_OperatorCost]]:
    """Operators that read the context of prompts, that of decoding sequences, and other operators."""
    prompt, decode, others = list[_OperatorCost](), list[_OperatorCost](), list[_OperatorCost]()
    for cost in costs:
        kind = cost.operator.kind
        (prompt if kind is ATTENTION else decode if kind is DECODE_ATTENTION else others).append(cost)
    return prompt, decode, others


def _seconds(costs: Iterable[_OperatorCost], batch: Batch) -> float:
    total_s = 0.0
    for cost in costs:
        total_s += cost.seconds(batch)
    return total_s


class SegmentTime(NamedTuple):
    """Costs of one segment for one batch: computation, then an optional collective."""

    name: str
    compute_s: float
    kind: CollectiveKind | None
    nbytes: float
