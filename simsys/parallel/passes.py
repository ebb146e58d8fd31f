"""A model as one rank sees it in a forward pass: stretches of equal blocks, each a run of segments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import groupby

from simsys.model.model import Block, Model
from simsys.model.operators import Operator
from simsys.parallel.overlap import OverlappedWith, overlapped, ring_attention, with_expert_overlap
from simsys.parallel.recomputed_modules import discarded, modules_in
from simsys.parallel.segments import Experts, Segment, block_segments, with_layers
from simsys.sums import ordered_sum


@dataclass(frozen=True, eq=False)
class RepeatedBlock:
    """Equal consecutive blocks: the segments of one block, their number, and the cost of their backward pass.

    Args:
        name: Name of the block.
        segments: The rank's share of one block.
        repeat: How many equal blocks.
        backward_ratio: FLOP of the backward over those of the forward pass.
        output_elements_per_token: Elements handed to the next block, whole.
        activation_elements_per_token: Elements that the rank keeps for the backward pass of one block, without scores.
        input_elements_per_token: The rank's share of the block's input, which is all that a recomputed block keeps.
        output_elements_per_logit: Output elements per decoder token of an encoder-decoder.
        activation_elements_per_logit: Kept elements per decoder token.
        input_elements_per_logit: Input elements per decoder token.
        shared_elements_per_token: The rank's share of `Block.shared_elements_per_token`.
        spread: As `Block.spread`.
        module_elements: By module, kept elements per token that its recomputation saves.
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
    spread: bool = False
    module_elements: tuple[tuple[str, float], ...] = ()

    @cached_property
    def checkpointed(self) -> bool:
        """True if full recomputation covers it: every block except embedding and head.

        As in the FLOP count of Narayanan et al. 2021, eq. 3, with one forward and one backward pass of the vocabulary.
        """
        return is_checkpointed(self.operators)

    @cached_property
    def operators(self) -> tuple[Operator, ...]:
        """The rank's share of the operators of one block."""
        return tuple(operator for segment in self.segments for operator in segment.operators)

    @cached_property
    def parameters(self) -> float:
        """The rank's share of the weights of one block."""
        return ordered_sum(operator.parameters for operator in self.operators)

    @cached_property
    def frozen_bytes(self) -> float:
        """Bytes of the weights of one block that are not trained."""
        return ordered_sum(operator.frozen_bytes for operator in self.operators)

    @cached_property
    def has_head(self) -> bool:
        """Whether the block computes the logits."""
        return any(operator.is_head for operator in self.operators)


def is_checkpointed(operators: Iterable[Operator]) -> bool:
    """Whether full recomputation covers a block of these operators; see `RepeatedBlock.checkpointed`."""
    return not any(operator.lookup or operator.is_head for operator in operators)


def apart(stretch: RepeatedBlock) -> list[tuple[RepeatedBlock, str]]:
    """A stretch by the kind of group that holds the same weights: divided experts apart from what is around them."""
    sent = [i for i, s in enumerate(stretch.segments) if s.exchange is not None and s.exchange.over == "expert"]
    if not sent:
        return [(stretch, "data")]
    routed = any(operator.expert_ranks > 1 for operator in stretch.segments[sent[-1]].operators)
    first, last = sent[0] + 1, sent[-1] + routed
    after = stretch.segments[last:]
    parts = [
        (replace(stretch, segments=stretch.segments[:first]), "data"),
        (replace(stretch, name=f"{stretch.name} experts", segments=stretch.segments[first:last]), "expert_data"),
    ]
    return [*parts, (replace(stretch, name=f"{stretch.name} after", segments=after), "data")] if after else parts


@dataclass(frozen=True, eq=False)
class ForwardPass:
    """One rank's share of the whole model, or of a piece of it: stretches in order.

    Args:
        name: Name of the model or the piece.
        stretches: In forward order.
        input_elements_per_token: Elements of each token received from the previous piece, undivided; 0 if there is
            none.
        input_elements_per_logit: Elements of each decoder token of an encoder-decoder.
        hands_on: True if another piece follows.
    """

    name: str
    stretches: tuple[RepeatedBlock, ...]
    input_elements_per_token: float = 0.0
    input_elements_per_logit: float = 0.0
    hands_on: bool = False

    @property
    def output_elements_per_token(self) -> float:
        """Elements of each token that the last block hands on."""
        return self.stretches[-1].output_elements_per_token if self.stretches else 0.0

    @property
    def output_elements_per_logit(self) -> float:
        """Elements per decoder token of an encoder-decoder."""
        return self.stretches[-1].output_elements_per_logit if self.stretches else 0.0

    @property
    def shared_elements_per_token(self) -> float:
        """The rank's share of what several blocks read and all of them together keep once."""
        return max((stretch.shared_elements_per_token for stretch in self.stretches), default=0.0)

    @cached_property
    def num_blocks(self) -> int:
        """Blocks, repeated ones counted."""
        return sum(stretch.repeat for stretch in self.stretches)

    @property
    def widest_elements_per_token(self) -> float:
        """Elements that the widest operator reads and writes for each token, head, windows and states left out."""
        operators = (operator for stretch in self.stretches for operator in stretch.operators)
        activations = (op.elements_per_token for op in operators if not (op.is_head or op.elements_per_sequence))
        return max(activations, default=0.0)

    @cached_property
    def parameters(self) -> float:
        """The rank's share of the weights."""
        return ordered_sum(op.parameters * stretch.repeat for stretch in self.stretches for op in stretch.operators)

    @cached_property
    def expert_parameters(self) -> float:
        """What of them belongs to experts that are divided among ranks."""
        return ordered_sum(
            op.parameters * stretch.repeat
            for stretch in self.stretches
            for op in stretch.operators
            if op.expert_ranks > 1
        )

    @cached_property
    def frozen_bytes(self) -> float:
        """Bytes of the rank's share of the weights that are not trained."""
        return ordered_sum(stretch.frozen_bytes * stretch.repeat for stretch in self.stretches)

    @cached_property
    def expert_frozen_bytes(self) -> float:
        """What of them belongs to experts that are divided among ranks."""
        return ordered_sum(
            op.frozen_bytes * stretch.repeat
            for stretch in self.stretches
            for op in stretch.operators
            if op.expert_ranks > 1
        )

    @property
    def has_head(self) -> bool:
        """Whether the logits are computed here."""
        return any(stretch.has_head for stretch in self.stretches)


def forward_pass(
    model: Model,
    tensor_degree: int = 1,
    sequence_parallel: bool = False,
    *,
    experts: Experts | None = None,
    context_degree: int = 1,
    overlap: bool = False,
    overlapped_with: OverlappedWith = "nothing",
) -> ForwardPass:
    """The forward pass of `model` as one of `tensor_degree` ranks runs it.

    Args:
        model: The whole model.
        tensor_degree: Ranks that share each layer.
        sequence_parallel: Divide replicated operators of tensor parallelism by tokens.
        experts: Division of routed experts; by default every rank holds all.
        context_degree: Parts of each sequence; keys and values go around their ranks.
        overlap: Overlap the exchanges of sequence parallelism with the adjacent matrix products.
        overlapped_with: What overlaps with the all-to-alls of experts.
    """
    degrees = tensor_degree, sequence_parallel, experts, context_degree
    return _forward_pass(_TheModel(model), *degrees, overlap, overlapped_with)


class _TheModel:
    """A model as a key, by identity: hashing all its operators would take as long as the pass."""

    __slots__ = ("model",)

    def __init__(self, model: Model) -> None:
        self.model = model

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _TheModel) and other.model is self.model

    def __hash__(self) -> int:
        return id(self.model)


@lru_cache(maxsize=64)  # checks and searches ask for the same few passes for each of their candidates
def _forward_pass(
    key: _TheModel,
    tensor_degree: int,
    sequence_parallel: bool,
    experts: Experts | None,
    context_degree: int,
    overlap: bool,
    overlapped_with: OverlappedWith,
) -> ForwardPass:
    model = key.model
    stretches: list[RepeatedBlock] = []
    previous: Block | None = None
    by_tokens = tensor_degree if sequence_parallel else 1
    for _, same in groupby(model.blocks, key=id):
        blocks = list(same)
        block = blocks[0]
        segments = block_segments(block, tensor_degree, model.num_key_value_heads, sequence_parallel, experts)
        if overlap:
            segments = overlapped(segments, tensor_degree)
        segments = with_layers(ring_attention(with_expert_overlap(segments, overlapped_with), context_degree))
        stretch = _stretch(block, previous, segments, tensor_degree, by_tokens)
        if experts is not None:
            stretch = _with_load(stretch, block, tensor_degree, experts)
        stretches.append(replace(stretch, repeat=len(blocks)))
        previous = block
    return ForwardPass(model.name, tuple(stretches))


def _with_load(stretch: RepeatedBlock, block: Block, tensor_degree: int, experts: Experts) -> RepeatedBlock:
    """A copy with the kept activations of the busiest rank."""
    more = (experts.load - 1.0) / tensor_degree
    kept = stretch.activation_elements_per_token + more * block.routed_activation_elements_per_token
    return replace(
        stretch,
        activation_elements_per_token=kept,
        module_elements=tuple(
            (module, elements + more * discarded(block, module)[2]) for module, elements in stretch.module_elements
        ),
    )


def _stretch(
    block: Block, previous: Block | None, segments: Sequence[Segment], tensor_degree: int, by_tokens: int
) -> RepeatedBlock:
    """A rank's share of one block; a decoder layer processes decoder tokens, other layers all tokens."""
    shared = block.shared_elements_per_token
    of_token, of_logit = block.activation_elements_per_token, block.activation_elements_per_logit
    whole_of_token = block.replicated_activation_elements_per_token
    whole_of_logit = block.replicated_activation_elements_per_logit
    return RepeatedBlock(
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
        spread=block.spread,
        module_elements=tuple(
            (module, _kept_elements(divided + whole, whole, tensor_degree, by_tokens))
            for module in modules_in(block.operators)
            for divided, whole, _ in [discarded(block, module)]
        ),
    )


def _kept_elements(elements: float, whole: float, tensor_degree: int, by_tokens: int) -> float:
    """Activations that one rank keeps; norms and dropout keep theirs whole (Korthikanti et al. 2022, §4.2.1).

    With sequence parallelism they are divided by tokens, and so are the inputs of column-split operators, which are
    gathered again in the backward pass (§4.2.2).
    """
    return whole / by_tokens + (elements - whole) / tensor_degree
