"""A model as one rank sees it in a forward pass: segments of operators, with a collective after some of them.

Tensor parallelism is a transform of the model (Shoeybi et al. 2019, §3): column-, head- and
vocabulary-split operators shrink by the degree, row-split ones shrink and leave partial sums that an
all-reduce adds up, so a transformer layer becomes compute – all-reduce – compute – all-reduce. With sequence
parallelism (Korthikanti et al. 2022, §4.2.2) what every rank would do alike, norms and dropout, is divided by tokens
instead, and each all-reduce becomes a reduce-scatter behind the split operators and an all-gather before them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from simsys.collectives.base import CollectiveKind
from simsys.errors import UsageError
from simsys.model.work import Block, Model, Operator, OperatorKind, Split


@dataclass(frozen=True, slots=True)
class Exchange:
    """A collective of the tensor-parallel group, sized by the batch.

    Args:
        kind: Which collective.
        elements_per_token: Elements of the full buffer per token.
        per_logit: True if only tokens that go through the head count, the decoder's beside an encoder.
    """

    kind: CollectiveKind
    elements_per_token: float
    per_logit: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Operators of one block that run without communication, then possibly an exchange.

    Args:
        operators: One rank's share of them; none if an exchange comes first in a block.
        exchange: What follows, if anything.
        layers: Share of a layer's host overhead that falls into this segment.
    """

    operators: tuple[Operator, ...]
    exchange: Exchange | None = None
    layers: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """Equal consecutive blocks: the segments of one of them, how many there are, and what their backward pass costs.

    Args:
        name: Name of the block.
        segments: The rank's share of one block.
        repeat: How many equal blocks.
        backward_ratio: FLOP of the backward over those of the forward pass.
        output_elements_per_token: Elements handed to the next block, whole.
        activation_elements_per_token: Elements that the rank keeps for the backward pass of one block, scores apart.
        input_elements_per_token: The rank's share of what the block works on of what the one before hands over: all
            that is kept of a block that is computed again.
        output_elements_per_logit: The same three for each token of a decoder beside an encoder.
        activation_elements_per_logit: Of them, what is kept.
        input_elements_per_logit: Of them, what is worked on.
        shared_elements_per_token: The rank's share of `Block.shared_elements_per_token`.
    """

    name: str
    segments: tuple[Segment, ...]
    repeat: int = 1
    backward_ratio: float = 2.0
    output_elements_per_token: float = 0.0
    activation_elements_per_token: float = 0.0
    input_elements_per_token: float = 0.0
    output_elements_per_logit: float = 0.0
    activation_elements_per_logit: float = 0.0
    input_elements_per_logit: float = 0.0
    shared_elements_per_token: float = 0.0

    @property
    def checkpointed(self) -> bool:
        """Whether full recomputation covers it: every block but the embedding and the head.

        So it is in the FLOP count of Narayanan et al. 2021, eq. 3, whose term of the vocabulary is that of one
        forward and one backward pass.
        """
        return not any(operator.lookup or operator.is_head for operator in self.operators)

    @property
    def operators(self) -> Iterator[Operator]:
        """The rank's share of the operators of one block."""
        return (operator for segment in self.segments for operator in segment.operators)


@dataclass(frozen=True, slots=True, eq=False)
class ForwardPass:
    """One rank's share of the whole model, or of a piece of it: stretches in order.

    Args:
        name: Name of the model or the piece.
        stretches: In forward order.
        input_elements_per_token: Elements of each token that the piece before hands over, whole; 0 if there is none.
        input_elements_per_logit: The same for each token of a decoder beside an encoder.
    """

    name: str
    stretches: tuple[Stretch, ...]
    input_elements_per_token: float = 0.0
    input_elements_per_logit: float = 0.0

    @property
    def output_elements_per_token(self) -> float:
        """Elements of each token that the last block hands on."""
        return self.stretches[-1].output_elements_per_token if self.stretches else 0.0

    @property
    def output_elements_per_logit(self) -> float:
        """The same for each token of a decoder beside an encoder."""
        return self.stretches[-1].output_elements_per_logit if self.stretches else 0.0

    @property
    def shared_elements_per_token(self) -> float:
        """The rank's share of what several blocks read and all of them together keep once."""
        return max((stretch.shared_elements_per_token for stretch in self.stretches), default=0.0)

    @property
    def num_blocks(self) -> int:
        """Blocks, repeated ones counted."""
        return sum(stretch.repeat for stretch in self.stretches)

    @property
    def widest_elements_per_token(self) -> float:
        """Elements that the widest operator reads and writes for each token, the head left out."""
        operators = (operator for stretch in self.stretches for operator in stretch.operators)
        return max((op.elements_per_token for op in operators if not op.is_head), default=0.0)

    @property
    def parameters(self) -> float:
        """The rank's share of the weights."""
        return sum(op.parameters * stretch.repeat for stretch in self.stretches for op in stretch.operators)

    @property
    def has_head(self) -> bool:
        """Whether the logits are computed here."""
        return any(operator.is_head for stretch in self.stretches for operator in stretch.operators)


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
        # A vocabulary is padded up to a multiple of the degree.
        columns = -(-operator.columns // degree)
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


def forward_pass(model: Model, tensor_degree: int = 1, sequence_parallel: bool = False) -> ForwardPass:
    """The forward pass of `model` as one of `tensor_degree` ranks runs it.

    Args:
        model: The whole model.
        tensor_degree: Ranks that share each layer.
        sequence_parallel: Divide by tokens what tensor parallelism leaves whole.
    """
    stretches: list[Stretch] = []
    previous: Block | None = None
    by_tokens = tensor_degree if sequence_parallel else 1
    for block in model.blocks:
        if block is previous:
            stretches[-1] = replace(stretches[-1], repeat=stretches[-1].repeat + 1)
        else:
            segments = block_segments(block, tensor_degree, model.num_key_value_heads, sequence_parallel)
            stretches.append(_stretch(block, previous, segments, tensor_degree, by_tokens))
        previous = block
    return ForwardPass(model.name, tuple(stretches))


def _stretch(
    block: Block, previous: Block | None, segments: Sequence[Segment], tensor_degree: int, by_tokens: int
) -> Stretch:
    """A rank's share of one block; a decoder's layer works on its own tokens, any other on what there is."""
    shared = block.shared_elements_per_token
    of_token, of_logit = block.activation_elements_per_token, block.activation_elements_per_logit
    whole_of_token = block.replicated_activation_elements_per_token
    whole_of_logit = block.replicated_activation_elements_per_logit
    return Stretch(
        block.name,
        tuple(segments),
        backward_ratio=block.backward_flop_ratio,
        output_elements_per_token=block.output_elements_per_token,
        activation_elements_per_token=_kept_elements(of_token, whole_of_token, tensor_degree, by_tokens),
        input_elements_per_token=previous.output_elements_per_token / by_tokens if previous and not shared else 0.0,
        output_elements_per_logit=block.output_elements_per_logit,
        activation_elements_per_logit=_kept_elements(of_logit, whole_of_logit, tensor_degree, by_tokens),
        input_elements_per_logit=previous.output_elements_per_logit / by_tokens if previous and shared else 0.0,
        shared_elements_per_token=shared / by_tokens,
    )


def _kept_elements(elements: float, whole: float, tensor_degree: int, by_tokens: int) -> float:
    """Activations that one rank keeps; norms and dropout keep theirs whole (Korthikanti et al. 2022, §4.2.1).

    With sequence parallelism they are divided by tokens, and so are the inputs of column-split operators, which are
    gathered again in the backward pass (§4.2.2).
    """
    return whole / by_tokens + (elements - whole) / tensor_degree


def block_segments(
    block: Block, tensor_degree: int = 1, num_key_value_heads: int = 0, sequence_parallel: bool = False
) -> list[Segment]:
    """Cut a block wherever something must be exchanged under tensor parallelism."""
    cuts: list[tuple[list[Operator], Exchange | None]] = []
    pending: list[Operator] = []
    sequence_parallel = sequence_parallel and tensor_degree > 1
    # Whether the rank has only its part of the tokens, and of the decoder's tokens beside an encoder.
    by_tokens = dict.fromkeys((False, True), sequence_parallel)
    for operator in block.operators:
        own = operator.per_logit
        if by_tokens[own] and operator.split is not Split.REPLICATED and not operator.lookup:
            cuts.append((pending, _gather_before(operator, block)))
            pending, by_tokens[own] = [], False
        share = shard(operator, tensor_degree, num_key_value_heads)
        pending.append(divided_by_tokens(share, tensor_degree) if by_tokens[own] and not operator.lookup else share)
        exchange = _exchange_after(operator, block) if tensor_degree > 1 else None
        if exchange is not None:
            if sequence_parallel and exchange.kind is CollectiveKind.ALL_REDUCE:
                exchange, by_tokens[own] = replace(exchange, kind=CollectiveKind.REDUCE_SCATTER), True
            cuts.append((pending, exchange))
            pending = []
    if pending:
        cuts.append((pending, None))
    layers = 1.0 / sum(bool(operators) for operators, _ in cuts)
    return [Segment(tuple(ops), exchange, layers=layers if ops else 0.0) for ops, exchange in cuts]


def _gather_before(operator: Operator, block: Block) -> Exchange:
    """The hidden states of all tokens, for an operator that is split otherwise than by tokens."""
    if operator.per_logit:
        return Exchange(CollectiveKind.ALL_GATHER, float(operator.inner), per_logit=True)
    return Exchange(CollectiveKind.ALL_GATHER, block.output_elements_per_token)


def _exchange_after(operator: Operator, block: Block) -> Exchange | None:
    if operator.split is Split.ROW and operator.kind is OperatorKind.GEMM and _closes_sum(operator, block):
        return Exchange(CollectiveKind.ALL_REDUCE, float(operator.columns), per_logit=operator.per_logit)
    if operator.split is Split.VOCABULARY:
        if operator.kind is OperatorKind.GEMM:
            return Exchange(CollectiveKind.ALL_GATHER, float(operator.columns), per_logit=operator.per_logit)
        elements = block.output_elements_per_logit if operator.per_logit else block.output_elements_per_token
        return Exchange(CollectiveKind.ALL_REDUCE, elements, per_logit=operator.per_logit)
    return None


def _closes_sum(operator: Operator, block: Block) -> bool:
    """False if a later row-split operator adds to the same sum, as shared experts do after routed ones."""
    following: Iterable[Operator] = block.operators[block.operators.index(operator) + 1 :]
    return not any(later.split is Split.ROW and not operator.name.endswith("attention_output") for later in following)


def _divide(operator: Operator, field: str, degree: int) -> int:
    size: int = getattr(operator, field)
    if size % degree:
        raise UsageError(
            f"operator {operator.name!r} has {size} {field}, which tensor parallelism of {degree} does not divide"
        )
    return size // degree


def _gemm_elements(operator: Operator, inner: float, columns: float) -> float:
    return (inner + columns) * operator.rows_per_token
