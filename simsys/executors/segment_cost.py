"""What one segment of a forward pass takes for any batch: its computation, and the bytes of its collective."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from simsys.collectives.base import CollectiveKind
from simsys.executors.launches import NO_LAUNCHES, Launches
from simsys.executors.step_times import Line
from simsys.model.batch import Batch
from simsys.model.operators import Operator, OperatorKind
from simsys.model.work import Precision, kernel_of
from simsys.parallel.segments import Segment
from simsys.platform.device_spec import DeviceSpec, kernel_bounds, kernel_seconds

UNIT = 2.0**20
"""Of context, for slopes: large, so that what does not depend on it leaves no rounding in the difference."""


PromptBound = tuple[float, float, float]
"""A least time of a kernel in seconds: a constant, and what each query-key pair and each cached token add to it."""


class SegmentCost:
    """Duration of a segment for any batch.

    Most operators depend on the token counts alone, which repeat from step to step, so their sum is kept. Prompt
    attention depends on the prompts and decode attention on the context; they are computed anew when present.
    """

    __slots__ = (
        "_attending",
        "_by_tokens",
        "_decode",
        "_kept",
        "_launches",
        "_layers",
        "_precision",
        "_prompt",
        "_spec",
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
        def of_kind(*kinds: OperatorKind) -> tuple[Operator, ...]:
            return tuple(operator for operator in segment.operators if operator.kind in kinds)

        self._prompt = of_kind(OperatorKind.ATTENTION)
        self._decode = of_kind(OperatorKind.DECODE_ATTENTION)
        self._attending = self._prompt + self._decode
        self._by_tokens = tuple(op for op in segment.operators if op not in self._attending)
        self._kept: dict[tuple[float, float, bool], float] = {}
        self._spec, self._precision = spec, precision
        self._launches, self._layers = launches, segment.launches
        self.exchange = segment.exchange
        self.layers_s = segment.layers * per_layer_s

    @property
    def attends(self) -> bool:
        """Whether some of its duration depends on the context."""
        return bool(self._attending)

    @property
    def per_logit(self) -> bool:
        """Whether some of it depends on the tokens that go through the head."""
        exchange = self.exchange
        return any(operator.per_logit for operator in self._by_tokens) or (exchange is not None and exchange.per_logit)

    def compute_seconds(self, batch: Batch) -> float:
        """Seconds of computation, host overhead of the layers included."""
        return self.token_seconds(batch) + self.context_seconds(batch)

    def token_seconds(self, batch: Batch) -> float:
        """The part that depends on the token counts, and on whether there are prompts, alone; kept."""
        prompts = batch.attention_pairs > 0.0
        key = batch.tokens, batch.logits, prompts
        seconds = self._kept.get(key)
        if seconds is None:
            # Without prompts, what prompt attention does depends on the token counts too.
            operators = self._by_tokens if prompts else self._by_tokens + self._prompt
            # The host launches kernels ahead of the GPU; where they are shorter than their launches, these bind.
            launches_s = self._layers * self._launches.seconds_per_layer(batch)
            by_tokens_s = self._kernels_seconds([op for op in operators if not op.per_logit], batch)
            by_logits_s = self._kernels_seconds([op for op in operators if op.per_logit], batch)
            seconds = self._kept[key] = self.layers_s + max(launches_s, by_tokens_s) + by_logits_s
        return seconds

    def context_seconds(self, batch: Batch) -> float:
        """The part that depends on the context."""
        operators = self._attending if batch.attention_pairs > 0.0 else self._decode
        return self._kernels_seconds(operators, batch) if operators else 0.0

    def prompt_bounds(self, tokens: float, repeat: int) -> list[list[PromptBound]]:
        """The bounds of the kernels that read the context of prompts, `repeat` times."""
        batches = (
            Batch(tokens=tokens),
            Batch(tokens=tokens, attention_pairs=UNIT),
            Batch(tokens=tokens, prompt_context_tokens=UNIT),
        )
        return [
            [
                (repeat * fixed_s, repeat * (pairs_s - fixed_s) / UNIT, repeat * (context_s - fixed_s) / UNIT)
                for fixed_s, pairs_s, context_s in self._bounds(operator, batches)
            ]
            for operator in self._prompt
        ]

    def decode_bounds(self, tokens: float, repeat: int, sequences: int) -> list[list[Line]]:
        """The bounds of the kernels that read the context of decoding sequences, `repeat` times.

        Whether there is one or several makes a difference, but not how many.
        """
        empty = Batch(tokens=tokens, decode_sequences=sequences)
        batches = empty, empty._replace(decode_context_tokens=UNIT)
        return [
            [
                (repeat * fixed_s, repeat * (context_s - fixed_s) / UNIT)
                for fixed_s, context_s in self._bounds(operator, batches)
            ]
            for operator in self._decode
        ]

    def _bounds(self, operator: Operator, batches: Iterable[Batch]) -> Iterator[tuple[float, ...]]:
        """Each bound of a kernel, for all the batches."""
        kernels = [kernel_bounds(self._spec, kernel_of(operator, batch, self._precision)) for batch in batches]
        return zip(*kernels, strict=True)

    def exchange_bytes(self, batch: Batch) -> float:
        """Bytes of the collective that follows; 0 if none does."""
        if self.exchange is None:
            return 0.0
        tokens = batch.logits if self.exchange.per_logit else batch.tokens
        return tokens * self.exchange.elements_per_token * self._precision.activation_bytes

    def _kernels_seconds(self, operators: Iterable[Operator], batch: Batch) -> float:
        total_s = 0.0
        for operator in operators:
            kernel = kernel_of(operator, batch, self._precision)
            if kernel.flop or kernel.nbytes:
                total_s += kernel_seconds(self._spec, kernel)
        return total_s


class SegmentTime(NamedTuple):
    """What one segment takes for one batch: computation, then possibly a collective."""

    name: str
    compute_s: float
    kind: CollectiveKind | None
    nbytes: float
