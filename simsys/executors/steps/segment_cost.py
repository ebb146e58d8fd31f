"""What one segment of a forward pass takes for any batch: its computation, and the bytes of its collective."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from simsys.collectives.base import CollectiveKind
from simsys.executors.steps.launches import NO_LAUNCHES, Launches
from simsys.executors.steps.step_times import Line
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
"""A least time of a kernel in seconds: a constant, and what each query-key pair and each cached token add to it."""


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
        "_decode",
        "_kept",
        "_launches",
        "_layers",
        "_prompt",
        "exchange",
        "layers_s",
    )

    def __init__(
        self,
        segment: Segment,
        spec: DeviceSpec,
        precision: Precision,
        per_layer_s: float,
        launches: Launches = NO_LAUNCHES,
    ) -> None:
        rates: dict[tuple[OperatorKind, str, float, bool], KernelRates] = {}
        costs = [_OperatorCost(operator, spec, precision, rates) for operator in segment.operators]
        self._prompt = [cost for cost in costs if cost.operator.kind is ATTENTION]
        self._decode = [cost for cost in costs if cost.operator.kind is DECODE_ATTENTION]
        self._attending = self._prompt + self._decode
        others = [cost for cost in costs if cost.operator.kind not in (ATTENTION, DECODE_ATTENTION)]
        # Without prompts, what prompt attention does depends on the token counts too.
        found = {True: others, False: others + self._prompt}
        self._by_tokens = {key: [each for each in found[key] if not each.operator.per_logit] for key in found}
        self._by_logits = {key: [each for each in found[key] if each.operator.per_logit] for key in found}
        self._activation_bytes = precision.activation_bytes
        self._kept: dict[tuple[float, float, bool], float] = {}
        self._launches, self._layers = launches, segment.launches
        self.exchange = segment.exchange
        self.layers_s = segment.layers * per_layer_s * spec.kernel_gap

    @property
    def attends(self) -> bool:
        """Whether some of its duration depends on the context."""
        return bool(self._attending)

    @property
    def per_logit(self) -> bool:
        """Whether some of it depends on the tokens that go through the head."""
        exchange = self.exchange
        return bool(self._by_logits[True]) or (exchange is not None and exchange.per_logit)

    def compute_seconds(self, batch: Batch) -> float:
        """Seconds of computation, host overhead of the layers included."""
        return self.token_seconds(batch) + self.context_seconds(batch)

    def token_seconds(self, batch: Batch) -> float:
        """The part that depends on the token counts, and on whether there are prompts, alone; kept."""
        prompts = batch.attention_pairs > 0.0
        key = batch.tokens, batch.logits, prompts
        seconds = self._kept.get(key)
        if seconds is None:
            # The host launches kernels ahead of the GPU; where they are shorter than their launches, these bind.
            launches_s = self._layers * self._launches.seconds_per_layer(batch)
            by_tokens_s = _seconds(self._by_tokens[prompts], batch)
            by_logits_s = _seconds(self._by_logits[prompts], batch)
            prompts_s = self._layers * self._launches.prompt_seconds_per_layer(batch.tokens) if prompts else 0.0
            seconds = self._kept[key] = self.layers_s + prompts_s + max(launches_s, by_tokens_s) + by_logits_s
        return seconds

    def context_seconds(self, batch: Batch) -> float:
        """The part that depends on the context."""
        return _seconds(self._attending if batch.attention_pairs > 0.0 else self._decode, batch)

    def prompt_bounds(self, tokens: float, repeat: int) -> list[list[PromptBound]]:
        """The bounds of the kernels that read the context of prompts, `repeat` times."""
        batch = Batch(tokens=tokens)
        return [
            [
                (repeat * fixed_s, repeat * (pairs_s - fixed_s) / UNIT, repeat * (context_s - fixed_s) / UNIT)
                for fixed_s, pairs_s, context_s in zip(*cost.bounds(batch, cost.of_prompts), strict=True)
            ]
            for cost in self._prompt
        ]

    def decode_bounds(self, tokens: float, repeat: int, sequences: int) -> list[list[Line]]:
        """The bounds of the kernels that read the context of decoding sequences, `repeat` times.

        Whether there is one or several makes a difference, but not how many.
        """
        batch = Batch(tokens=tokens, decode_sequences=sequences)
        return [
            [
                (repeat * fixed_s, repeat * (context_s - fixed_s) / UNIT)
                for fixed_s, context_s in zip(*cost.bounds(batch, cost.of_decoding[sequences > 1]), strict=True)
            ]
            for cost in self._decode
        ]

    def exchange_bytes(self, batch: Batch) -> float:
        """Bytes of the collective that follows; 0 if none does."""
        if self.exchange is None:
            return 0.0
        tokens = batch.logits if self.exchange.per_logit else batch.tokens
        return tokens * self.exchange.elements_per_token * self._activation_bytes


class _OperatorCost:
    """The kernel of an operator for any batch, with what does not depend on the batch worked out beforehand.

    Args:
        operator: The operator.
        spec: The device.
        precision: Of weights, activations and KV cache.
        rates: Of kernels, some of them found already.
    """

    __slots__ = (
        "_activation_bytes",
        "_bytes_per_weight",
        "_precision",
        "_rates",
        "_weight_bytes",
        "of_decoding",
        "of_prompts",
        "operator",
    )

    def __init__(
        self,
        operator: Operator,
        spec: DeviceSpec,
        precision: Precision,
        rates: dict[tuple[OperatorKind, str, float, bool], KernelRates],
    ) -> None:
        aligned = alignment(operator.columns, operator.inner)
        key = operator.kind, precision.dtype(operator), aligned, operator.grouped
        if key not in rates:
            rates[key] = KernelRates(spec, *key)
        self.operator, self._precision, self._rates = operator, precision, rates[key]
        self._bytes_per_weight = precision.bytes_per_weight(operator)
        self._activation_bytes = precision.activation_bytes
        self._weight_bytes: float | None = None
        """What every pass reads of its weights, where all else grows with the tokens."""
        if operator.kind not in (ATTENTION, DECODE_ATTENTION) and operator.experts == operator.adapters == 1:
            self._weight_bytes = operator.parameters_read(1.0) * self._bytes_per_weight
        self.of_prompts = [
            self._added(Batch(1.0, attention_pairs=UNIT)),
            self._added(Batch(1.0, prompt_context_tokens=UNIT)),
        ]
        """What `UNIT` query-key pairs of prompts add, and `UNIT` tokens that these read from the cache."""
        self.of_decoding = [
            [self._added(Batch(1.0, decode_context_tokens=UNIT, decode_sequences=each))] for each in (1.0, 2.0)
        ]
        """What `UNIT` tokens add that one decoding sequence reads, and that several do."""

    def _added(self, batch: Batch) -> Amounts:
        """What the context of a batch adds to one token without."""
        empty = Batch(tokens=1.0, decode_sequences=batch.decode_sequences)
        before, after = (
            amounts(self.operator, each, self._precision, self._bytes_per_weight) for each in (empty, batch)
        )
        return after[0] - before[0], after[1] - before[1]

    def bounds(self, batch: Batch, more: Sequence[Amounts]) -> list[tuple[float, float]]:
        """The two least times, as `kernel_bounds`, of a batch and of what else it may have."""
        flop, nbytes, rows = amounts(self.operator, batch, self._precision, self._bytes_per_weight)
        bounds = self._rates.bounds
        return [
            bounds(flop, nbytes, rows),
            *[bounds(flop + of_flop, nbytes + of_bytes, rows) for of_flop, of_bytes in more],
        ]

    def seconds(self, batch: Batch) -> float:
        """How long it takes; nothing is launched if there is nothing to do."""
        operator, weight_bytes = self.operator, self._weight_bytes
        tokens = batch.logits if operator.per_logit else batch.tokens
        if not tokens or weight_bytes is None:
            flop, nbytes, rows = amounts(operator, batch, self._precision, self._bytes_per_weight)
        else:  # as `amounts`, in short: this is most of what finding a step's duration takes
            flop = operator.flop_per_token * tokens
            nbytes = weight_bytes + operator.elements_per_token * tokens * self._activation_bytes
            rows = tokens * operator.rows_per_token
        return max(self._rates.bounds(flop, nbytes, rows)) if flop or nbytes else 0.0


def _seconds(costs: Iterable[_OperatorCost], batch: Batch) -> float:
    total_s = 0.0
    for cost in costs:
        total_s += cost.seconds(batch)
    return total_s


class SegmentTime(NamedTuple):
    """What one segment takes for one batch: computation, then possibly a collective."""

    name: str
    compute_s: float
    kind: CollectiveKind | None
    nbytes: float
