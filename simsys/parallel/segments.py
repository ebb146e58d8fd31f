"""A block of a model as segments: computation of a rank without communication, then an exchange.

Tensor parallelism is a transform of the model (Shoeybi et al. 2019, §3): column-, head- and vocabulary-split operators
shrink by the degree.

Row-split operators shrink, too, and leave partial sums for an all-reduce. So a transformer layer becomes compute –
all-reduce – compute – all-reduce. With sequence parallelism (Korthikanti et al. 2022, §4.2.2), norms and dropout are
divided by tokens instead of replicated, and each all-reduce becomes a reduce-scatter after the split operators and an
all-gather before them. With expert parallelism (Lepikhin et al. 2020, §3.2), two all-to-alls surround the routed
experts of a layer: one sends tokens to the ranks of their experts, one returns the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from simsys.collectives.base import CollectiveKind
from simsys.model.batch import Batch
from simsys.model.model import Block
from simsys.model.operators import Operator, OperatorKind, Split
from simsys.parallel.kernel_counts import launches_of
from simsys.parallel.sharding import divided_by_tokens, expert_part, expert_share, shard, wide_share


@dataclass(frozen=True, slots=True)
class Exchange:
    """A collective, sized by the batch.

    Args:
        kind: The kind of collective. elements_per_token: Elements of the full buffer per token.
        per_logit: True if only tokens of the head count; in an encoder-decoder, decoder tokens.
        over: The kind of group, a name in `simsys.parallel.layout.GROUPS`.
    """

    kind: CollectiveKind
    elements_per_token: float
    per_logit: bool = False
    over: str = "tensor"

    def nbytes(self, batch: Batch, element_bytes: float) -> float:
        """Bytes of the full buffer for a batch."""
        return (batch.logits if self.per_logit else batch.tokens) * self.elements_per_token * element_bytes


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Operators of one block without communication, then an optional exchange.

    Args:
        operators: One rank's share of them; none if a block begins with an exchange.
        exchange: The exchange after the operators, or None.
        layers: Share of a layer's host overhead in this segment.
        launches: Its kernels over those of a dense layer, with eager launches.
        overlapped: True if the exchange overlaps with the operators.
        backward_factor: Volume of an overlapped exchange in the backward pass over the forward pass.
    """

    operators: tuple[Operator, ...]
    exchange: Exchange | None = None
    layers: float = 0.0
    launches: float = 0.0
    overlapped: bool = False
    backward_factor: float = 1.0


@dataclass(frozen=True, slots=True)
class WideExperts:
    """Experts that are divided among all GPUs of several data-parallel ranks of attention.

    The expert-parallel ranks are groups of GPUs, which divide each of their experts by tensor parallelism.

    Args:
        replicas: Data-parallel ranks.
        tensor: GPUs that divide each expert.
        copies: How often a token is sent; 0 if all tokens are gathered everywhere and results are reduced and
            scattered.
        sent_share: Bytes of a token on its way to the experts over those of an activation.
    """

    replicas: int
    tensor: int = 1
    copies: float = 0.0
    sent_share: float = 1.0

    def exchange(self, hidden: int, tensor_degree: int, load: float, *, back: bool) -> Exchange:
        """The collective that brings tokens to experts, or their results back.

        It is sized by the mean tokens of a data-parallel rank (gathered), or by its own (sent).

        Args:
            hidden: Elements of a token.
            tensor_degree: GPUs of a data-parallel rank, which divide its tokens among them.
            load: Tokens of the busiest rank over the mean.
            back: Whether it brings the results back.
        """
        each = hidden * (1.0 if back else self.sent_share)
        if self.copies:
            return Exchange(CollectiveKind.ALL_TO_ALL, each * self.copies * load / tensor_degree, over="expert")
        kind = CollectiveKind.REDUCE_SCATTER if back else CollectiveKind.ALL_GATHER
        return Exchange(kind, each * self.replicas, over="expert")


@dataclass(frozen=True, slots=True)
class Experts:
    """How routed experts are divided.

    Args:
        ranks: Expert-parallel degree.
        load: Tokens of the busiest rank over the mean.
        over_tensor: Whether these are the ranks of tensor parallelism, each of which then holds whole experts instead
            of a part of every one, as engines that serve do.
        wide: How tokens reach them, if several data-parallel ranks of a serving replica share them.
        redundant: Additional replicas of experts on all ranks together.
        whole: Whether tensor parallelism leaves experts whole: its ranks are among those that divide them, and each
            sends its part of the tokens (Megatron Core: ``expert_tensor_parallel_size`` 1).
        copies: How often a token is sent in training; 0 if once to each of its experts.
    """

    ranks: int
    load: float = 1.0
    over_tensor: bool = False
    wide: WideExperts | None = None
    redundant: int = 0
    whole: bool = False
    copies: float = 0.0

    def exchange(self, routed: Operator, tensor_degree: int = 1) -> Exchange:
        """The all-to-all that brings tokens to a routed operator, or its results back.

        Args:
            routed: The first operator of the experts.
            tensor_degree: Ranks among which the tokens are divided.
        """
        elements = routed.inner * (self.copies or routed.rows_per_token) * self.load / tensor_degree
        return Exchange(CollectiveKind.ALL_TO_ALL, elements, over="tensor" if self.over_tensor else "expert")


def block_segments(
    block: Block,
    tensor_degree: int = 1,
    num_key_value_heads: int = 0,
    sequence_parallel: bool = False,
    experts: Experts | None = None,
) -> list[Segment]:
    """Cut a block wherever something must be exchanged under tensor and expert parallelism."""
    cutter = _Cutter(block, tensor_degree, num_key_value_heads, sequence_parallel and tensor_degree > 1, experts)
    return cutter.segments()


class _Cutter:
    """Cuts a block, operator by operator.

    Args:
        block: The block.
        tensor_degree: Tensor-parallel degree.
        num_key_value_heads: Of the model.
        sequence_parallel: Whether ranks have a part of the tokens each between the operators that are split.
        experts: How routed experts are divided, if they are.
    """

    def __init__(
        self,
        block: Block,
        tensor_degree: int,
        num_key_value_heads: int,
        sequence_parallel: bool,
        experts: Experts | None,
    ) -> None:
        self._block, self._degree, self._heads = block, tensor_degree, num_key_value_heads
        self._sequence_parallel, self._experts = sequence_parallel, experts
        self._segments: list[Segment] = []
        self._pending: list[Operator] = []
        self._by_tokens = dict.fromkeys((False, True), sequence_parallel)
        """True if the rank has only its part of the tokens, and of the decoder tokens of an encoder-decoder."""
        self._routed = [op for op in block.operators if op.experts > 1] if experts is not None else []
        self._whole = experts is not None and experts.over_tensor
        self._sent = experts if not self._whole or sequence_parallel else None
        """Where every rank has all tokens, they need not be sent to experts: the ranks' results are added up."""

    def segments(self) -> list[Segment]:
        """The segments of the block, in order."""
        for operator in self._block.operators:
            self._add(operator)
        if self._pending:
            self._cut(None)
        return self._segments

    def _add(self, operator: Operator) -> None:
        own = operator.per_logit
        away = self._experts if operator in self._routed else None
        as_sent = away is not None and (self._whole or away.whole)  # its tokens are where they have to be
        if self._sent is not None and self._routed and operator is self._routed[0]:
            self._cut(self._all_to_all(self._sent, own))
        if self._by_tokens[own] and operator.split is not Split.REPLICATED and not operator.lookup and not as_sent:
            self._cut(_gather_before(operator, self._block, away))
            self._by_tokens[own] = False
        self._pending.append(_share(operator, self._degree, self._heads, away, self._by_tokens[own]))
        arrived = as_sent or (away is not None and away.wide is not None)  # its results are sent, not added up
        if self._degree > 1 and not (arrived and self._sent is not None):
            self._complete(operator)
        if self._sent is not None and self._routed and operator is self._routed[-1]:
            self._cut(self._all_to_all(self._sent, own, back=True))
            if self._sent.wide is not None and self._degree > 1:  # each rank has the results of a part of the tokens
                self._cut(Exchange(CollectiveKind.ALL_GATHER, float(self._routed[0].inner)))

    def _all_to_all(self, experts: Experts, per_logit: bool, *, back: bool = False) -> Exchange:
        if experts.wide is not None:
            return experts.wide.exchange(self._routed[0].inner, self._degree, experts.load, back=back)
        return experts.exchange(self._routed[0], self._degree if self._by_tokens[per_logit] else 1)

    def _complete(self, operator: Operator) -> None:
        """Add the exchange that completes the result of an operator, if it needs one."""
        exchange = _exchange_after(operator, self._block, self._sent)
        if exchange is None:
            return
        if self._sequence_parallel and exchange.kind is CollectiveKind.ALL_REDUCE:
            exchange = replace(exchange, kind=CollectiveKind.REDUCE_SCATTER)
            self._by_tokens[operator.per_logit] = True
        self._cut(exchange)

    def _cut(self, exchange: Exchange | None) -> None:
        self._segments.append(Segment(tuple(self._pending), exchange))
        self._pending = []


def _share(
    operator: Operator, tensor_degree: int, num_key_value_heads: int, away: Experts | None, by_tokens: bool
) -> Operator:
    """One rank's share of an operator, which has the rank's part of the tokens or all of them."""
    if away is not None and away.redundant:
        more = operator.experts + away.redundant
        operator = replace(operator, experts=more, parameters=operator.parameters * more / operator.experts)
    if away is not None and away.over_tensor:
        return expert_part(operator, away.ranks, away.load)
    if away is not None and away.wide is not None:
        return wide_share(operator, away.ranks, away.load, away.wide.tensor, away.wide.replicas)
    if away is not None and away.whole:
        return divided_by_tokens(expert_share(operator, away.ranks, away.load), tensor_degree)
    share = shard(operator, tensor_degree, num_key_value_heads)
    if away is not None:
        share = expert_share(share, away.ranks, away.load)
    return divided_by_tokens(share, tensor_degree) if by_tokens and not operator.lookup else share


def with_layers(segments: Sequence[Segment]) -> list[Segment]:
    """A copy with the host overhead of a layer divided among computing segments, and with kernel counts."""
    layers = 1.0 / sum(bool(segment.operators) for segment in segments)
    return [
        replace(segment, layers=layers if segment.operators else 0.0, launches=launches_of(segment.operators))
        for segment in segments
    ]


def _gather_before(operator: Operator, block: Block, experts: Experts | None) -> Exchange:
    """The hidden states of all tokens, for an operator that is split otherwise than by tokens."""
    if experts is not None:
        each = replace(experts, copies=0.0).exchange(operator)
        return replace(each, kind=CollectiveKind.ALL_GATHER, over="tensor")
    if operator.per_logit:
        return Exchange(CollectiveKind.ALL_GATHER, float(operator.inner), per_logit=True)
    return Exchange(CollectiveKind.ALL_GATHER, block.output_elements_per_token)


def _exchange_after(operator: Operator, block: Block, experts: Experts | None) -> Exchange | None:
    if operator.split is Split.ROW and operator.experts > 1 and experts is not None:
        elements = operator.columns * operator.rows_per_token * experts.load
        return Exchange(CollectiveKind.ALL_REDUCE, elements)
    if operator.split is Split.ROW and operator.kind is OperatorKind.GEMM and _closes_sum(operator, block, experts):
        return Exchange(CollectiveKind.ALL_REDUCE, float(operator.columns), per_logit=operator.per_logit)
    if operator.split is Split.VOCABULARY:
        if operator.kind is OperatorKind.GEMM:
            return Exchange(CollectiveKind.ALL_GATHER, float(operator.columns), per_logit=operator.per_logit)
        elements = block.output_elements_per_logit if operator.per_logit else block.output_elements_per_token
        return Exchange(CollectiveKind.ALL_REDUCE, elements, per_logit=operator.per_logit)
    return None


def _closes_sum(operator: Operator, block: Block, experts: Experts | None) -> bool:
    """False if a later row-split operator adds to the same sum, as routed experts do after shared ones.

    Unless the routed ones are divided among other ranks: then their outputs come from there.
    """
    following = block.operators[block.operators.index(operator) + 1 :]
    same_sum = [later for later in following if later.experts == 1 or experts is None]
    return not any(later.split is Split.ROW and not operator.name.endswith("attention_output") for later in same_sum)
