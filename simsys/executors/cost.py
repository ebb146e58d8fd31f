"""Durations of work, shared by all levels of detail: what high adds up event by event, medium sums at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from simsys.collectives.base import CollectiveKind
from simsys.executors.launches import NO_LAUNCHES, Launches
from simsys.model.batch import Batch
from simsys.model.operators import Operator, OperatorKind
from simsys.model.work import Precision, Work, kernel_of
from simsys.parallel.passes import ForwardPass
from simsys.parallel.segments import Segment
from simsys.platform.device_spec import DeviceSpec, kernel_seconds, work_seconds

CollectiveSeconds = Callable[[CollectiveKind, float], float]


class WorkCost:
    """Seconds of a `Work` on a device, computed once for each pair."""

    def __init__(self, per_layer_s: float) -> None:
        self._per_layer_s = per_layer_s
        self._seconds: dict[tuple[Work, int], float] = {}

    def seconds(self, work: Work, spec: DeviceSpec) -> float:
        """Duration of `work` on a device of this kind."""
        key = work, id(spec)
        found = self._seconds.get(key)
        if found is None:
            found = self._seconds[key] = work_seconds(spec, work, self._per_layer_s)
        return found


class SegmentCost:
    """Duration of a segment for any batch.

    Most operators depend on the token counts alone, which repeat from step to step, so their sum is kept. Prompt
    attention depends on the prompts and decode attention on the context; they are computed anew when present.
    """

    __slots__ = (
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
        self._by_tokens = tuple(op for op in segment.operators if op not in self._prompt + self._decode)
        self._kept: dict[tuple[float, float, bool], float] = {}
        self._spec, self._precision = spec, precision
        self._launches, self._layers = launches, segment.layers
        self.exchange = segment.exchange
        self.layers_s = segment.layers * per_layer_s

    @property
    def attends(self) -> bool:
        """Whether some of its duration depends on the context."""
        return bool(self._prompt or self._decode)

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
        operators = self._prompt + self._decode if batch.attention_pairs > 0.0 else self._decode
        return self._kernels_seconds(operators, batch)

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


@dataclass(frozen=True, slots=True)
class SegmentTime:
    """What one segment takes for one batch: computation, then possibly a collective."""

    name: str
    compute_s: float
    kind: CollectiveKind | None
    nbytes: float


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
        self._kept: dict[tuple[float, float, bool], tuple[float, float]] = {}

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
