"""A block of a model as segments: what a rank runs without communication, and what it exchanges afterwards.

Tensor parallelism is a transform of the model (Shoeybi et al. 2019, §3): column-, head- and
vocabulary-split operators shrink by the degree, row-split ones shrink and leave partial sums that an
all-reduce adds up, so a transformer layer becomes compute – all-reduce – compute – all-reduce. With sequence
parallelism (Korthikanti et al. 2022, §4.2.2) what every rank would do alike, norms and dropout, is divided by tokens
instead, and each all-reduce becomes a reduce-scatter behind the split operators and an all-gather before them.

With expert parallelism (Lepikhin et al. 2020, §3.2) the routed experts of a layer stand between two all-to-alls: one
that brings each token to the ranks of its experts and one that brings the results back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from simsys.collectives.base import CollectiveKind
from simsys.errors import UsageError
from simsys.model.model import Block
from simsys.model.operators import Operator, OperatorKind, Split

DENSE_LAUNCHES = 8
"""Kernels of a dense layer: two norms, four products, attention and an activation."""
PADDED = 8
"""Elements of which a part of a divided vocabulary has a multiple; Megatron-LM pads to 128."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A collective, sized by the batch.

    Args:
        kind: Which collective.
        elements_per_token: Elements of the full buffer per token.
        per_logit: True if only tokens that go through the head count, the decoder's beside an encoder.
        over: The kind of group, a name in `simsys.parallel.layout.GROUPS`.
    """

    kind: CollectiveKind
    elements_per_token: float
    per_logit: bool = False
    over: str = "tensor"


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Operators of one block that run without communication, then possibly an exchange.

    Args:
        operators: One rank's share of them; none if an exchange comes first in a block.
        exchange: What follows, if anything.
        layers: Share of a layer's host overhead that falls into this segment.
        launches: Its kernels over those of a whole dense layer, where the host launches them one by one.
        beside: The exchange runs beside the operators instead of after them.
        backward_factor: Volume of such an exchange in the backward pass over that in the forward pass.
    """

    operators: tuple[Operator, ...]
    exchange: Exchange | None = None
    layers: float = 0.0
    launches: float = 0.0
    beside: bool = False
    backward_factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Experts:
    """How routed experts are divided.

    Args:
        ranks: Expert-parallel degree.
        load: Tokens of the busiest rank over the mean.
        over_tensor: Whether these are the ranks of tensor parallelism, each of which then holds whole experts instead
            of a part of every one, as engines that serve do.
    """

    ranks: int
    load: float = 1.0
    over_tensor: bool = False

    def exchange(self, routed: Operator, tensor_degree: int = 1) -> Exchange:
        """The all-to-all that brings tokens to a routed operator, or its results back.

        Args:
            routed: The first operator of the experts.
            tensor_degree: Ranks among which the tokens are divided.
        """
        elements = routed.inner * routed.rows_per_token * self.load / tensor_degree
        return Exchange(CollectiveKind.ALL_TO_ALL, elements, over="tensor" if self.over_tensor else "expert")


def shard(operator: Operator, degree: int, num_key_value_heads: int = 0) -> Operator:
    """One rank's share of an operator under tensor parallelism of `degree`.

    Beyond one rank per key-value head, the cached heads are replicated: each rank still reads one whole head.

    Raises:
        UsageError: If a GEMM dimension or the number of KV elements cannot be divided.
    """
    if degree == 1 or operator.split is Split.REPLICATED:
        return operator
    share = replace(
        operator,
        parameters=operator.parameters / degree,
        flop_per_token=operator.flop_per_token / degree,
        flop_per_pair=operator.flop_per_pair / degree,
        elements_per_pair=operator.elements_per_pair / degree,
        kept_elements_per_pair=operator.kept_elements_per_pair / degree,
        elements_per_key_token=operator.elements_per_key_token / degree,
        kv_elements_per_token=operator.kv_elements_per_token / degree,
        elements_per_sequence=operator.elements_per_sequence / degree,
        elements_per_context_token=operator.elements_per_context_token / min(degree, num_key_value_heads or degree),
    )
    if operator.split is Split.COLUMN and operator.kind is OperatorKind.GEMM:
        return replace(
            share,
            columns=_divide(operator, "columns", degree),
            elements_per_token=_gemm_elements(operator, operator.inner, operator.columns / degree),
        )
    if operator.split is Split.ROW:
        return replace(
            share,
            inner=_divide(operator, "inner", degree),
            elements_per_token=_gemm_elements(operator, operator.inner / degree, operator.columns),
        )
    if operator.split is Split.VOCABULARY and operator.kind is OperatorKind.GEMM:
        # A vocabulary is padded until each part has aligned rows.
        columns = -(-operator.columns // (degree * PADDED)) * PADDED
        return replace(share, columns=columns, elements_per_token=_gemm_elements(operator, operator.inner, columns))
    return replace(share, elements_per_token=operator.elements_per_token / degree)


def divided_by_tokens(operator: Operator, degree: int) -> Operator:
    """One rank's share of an operator that holds all weights and works on its part of the tokens."""
    return replace(
        operator,
        rows_per_token=operator.rows_per_token / degree,
        flop_per_token=operator.flop_per_token / degree,
        elements_per_token=operator.elements_per_token / degree,
    )


def expert_share(operator: Operator, ranks: int, load: float) -> Operator:
    """One rank's share of routed experts that are divided among `ranks`.

    It holds a part of the experts and works on as many tokens as it has sent away, if all are equally busy.

    Args:
        operator: Of all experts.
        ranks: Expert-parallel degree.
        load: Tokens of the busiest rank over the mean.
    """
    return replace(
        operator,
        parameters=operator.parameters / ranks,
        rows_per_token=operator.rows_per_token * load,
        flop_per_token=operator.flop_per_token * load,
        elements_per_token=operator.elements_per_token * load,
        experts_held=operator.experts // ranks,
        expert_load=load,
        expert_ranks=ranks,
    )


def expert_part(operator: Operator, experts: Experts) -> Operator:
    """The busiest rank's share of routed experts that are divided among the ranks of tensor parallelism.

    It holds a part of the experts and works on the tokens of all that are routed to these.
    """
    share = experts.load / experts.ranks
    return replace(
        operator,
        parameters=operator.parameters / experts.ranks,
        rows_per_token=operator.rows_per_token * share,
        flop_per_token=operator.flop_per_token * share,
        elements_per_token=operator.elements_per_token * share,
        experts_held=operator.experts // experts.ranks,
        expert_load=experts.load,
    )


def block_segments(
    block: Block,
    tensor_degree: int = 1,
    num_key_value_heads: int = 0,
    sequence_parallel: bool = False,
    experts: Experts | None = None,
) -> list[Segment]:
    """Cut a block wherever something must be exchanged under tensor and expert parallelism."""
    cuts: list[tuple[list[Operator], Exchange | None]] = []
    pending: list[Operator] = []
    sequence_parallel = sequence_parallel and tensor_degree > 1
    # Whether the rank has only its part of the tokens, and of the decoder's tokens beside an encoder.
    by_tokens = dict.fromkeys((False, True), sequence_parallel)
    routed = [op for op in block.operators if op.experts > 1] if experts is not None else []
    whole = experts is not None and experts.over_tensor
    # Where every rank has all tokens, they need not be sent to experts: the ranks' results are added up.
    sent = experts if not whole or sequence_parallel else None
    for operator in block.operators:
        own = operator.per_logit
        away = experts if operator in routed else None
        if away is not None and sent is not None and operator is routed[0]:
            cuts.append((pending, sent.exchange(operator, tensor_degree if by_tokens[own] else 1)))
            pending = []
        as_sent = whole and away is not None  # its tokens are where they have to be
        if by_tokens[own] and operator.split is not Split.REPLICATED and not operator.lookup and not as_sent:
            cuts.append((pending, _gather_before(operator, block, away)))
            pending, by_tokens[own] = [], False
        pending.append(_share(operator, tensor_degree, num_key_value_heads, away, by_tokens[own]))
        exchange = _exchange_after(operator, block, sent) if tensor_degree > 1 else None
        if exchange is not None and not (as_sent and sent is not None):
            if sequence_parallel and exchange.kind is CollectiveKind.ALL_REDUCE:
                exchange, by_tokens[own] = replace(exchange, kind=CollectiveKind.REDUCE_SCATTER), True
            cuts.append((pending, exchange))
            pending = []
        if away is not None and sent is not None and operator is routed[-1]:
            cuts.append((pending, sent.exchange(routed[0], tensor_degree if by_tokens[own] else 1)))
            pending = []
    if pending:
        cuts.append((pending, None))
    return [Segment(tuple(ops), exchange) for ops, exchange in cuts]


def _share(
    operator: Operator, tensor_degree: int, num_key_value_heads: int, away: Experts | None, by_tokens: bool
) -> Operator:
    """One rank's share of an operator, which has the rank's part of the tokens or all of them."""
    if away is not None and away.over_tensor:
        return expert_part(operator, away)
    share = shard(operator, tensor_degree, num_key_value_heads)
    if away is not None:
        share = expert_share(share, away.ranks, away.load)
    return divided_by_tokens(share, tensor_degree) if by_tokens and not operator.lookup else share


def with_layers(segments: Sequence[Segment]) -> list[Segment]:
    """The same with a layer's host overhead shared out among those that compute, and its kernels counted."""
    layers = 1.0 / sum(bool(segment.operators) for segment in segments)
    return [
        replace(segment, layers=layers if segment.operators else 0.0, launches=_launches(segment.operators))
        for segment in segments
    ]


def _launches(operators: Sequence[Operator]) -> float:
    """Kernels over those of a dense layer."""
    launched = [operator for operator in operators if operator.kind is not OperatorKind.DECODE_ATTENTION]
    return sum(operator.launches for operator in launched) / DENSE_LAUNCHES


def _gather_before(operator: Operator, block: Block, experts: Experts | None) -> Exchange:
    """The hidden states of all tokens, for an operator that is split otherwise than by tokens."""
    if experts is not None:
        return replace(experts.exchange(operator), kind=CollectiveKind.ALL_GATHER, over="tensor")
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


def _divide(operator: Operator, field: str, degree: int) -> int:
    size: int = getattr(operator, field)
    if size % degree:
        raise UsageError(
            f"operator {operator.name!r} has {size} {field}, which tensor parallelism of {degree} does not divide"
        )
    return size // degree


def _gemm_elements(operator: Operator, inner: float, columns: float) -> float:
    return (inner + columns) * operator.rows_per_token
