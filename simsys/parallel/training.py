"""The work of one training step on one rank: blocks with their forward and backward work, and the optimizer's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from simsys.collectives.base import CollectiveKind
from simsys.model.work import Batch, Model, OperatorKind, Precision, Split, Work, backward_work, forward_work
from simsys.parallel.compression import Matrix, weight_matrices
from simsys.parallel.optimizer import update_work
from simsys.parallel.passes import ForwardPass, Stretch
from simsys.parallel.segments import Exchange, Segment


class Recompute(StrEnum):
    """What the backward pass computes again instead of having kept it (Chen et al. 2016)."""

    NONE = "none"
    SELECTIVE = "selective"  # the attention core, from queries, keys and values (Korthikanti et al. 2022, §5)
    FULL = "full"  # each block, from its input


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Computation (possibly none), then possibly a collective.

    Args:
        work: The computation.
        kind: Which collective.
        nbytes: Its full buffer.
        over: The kind of group, a name in `simsys.parallel.layout.GROUPS`.
        beside: The collective runs beside the computation instead of after it.
    """

    work: Work
    kind: CollectiveKind | None = None
    nbytes: float = 0.0
    over: str = "tensor"
    beside: bool = False

    @property
    def computes(self) -> bool:
        """Whether there is any computation."""
        return bool(self.work.kernels or self.work.layers)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """One block of the model in a training step; equal layers are the same object.

    If experts are divided among ranks, a layer is two blocks: what all ranks of ``data`` hold alike, and its experts.

    Args:
        name: Such as ``layer``.
        forward: What the forward pass of a micro-batch runs.
        backward: What its backward pass runs.
        gradient_bytes: Bytes of this rank's gradients of the block.
        weight: What of the backward pass is put off: the gradients of the weights, in schedules that split it.
        parameter_bytes: Bytes of this rank's weights of the block, in the precision it computes in; weights that
            stand in two blocks count with the first.
        over: The kind of group that holds the same weights: ``data`` or, for divided experts, ``expert_data``.
        matrices: This rank's weights that are matrices; the others are vectors (biases, norms).
    """

    name: str
    forward: tuple[Part, ...]
    backward: tuple[Part, ...]
    gradient_bytes: float
    weight: tuple[Part, ...] = ()
    parameter_bytes: float = 0.0
    over: str = "data"
    matrices: tuple[Matrix, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class TrainingPlan:
    """One rank's training step.

    Args:
        chunks: The blocks of each chunk of layers that the rank's pipeline stage holds, in forward order; a stage
            has one chunk unless it has virtual stages.
        micro_batches: Forward-backward passes per step.
        optimizer: Work of the weight update.
        handed_bytes: For each chunk, what a micro-batch hands to the next one in the model.
        returned_bytes: For each chunk, the gradient that a micro-batch hands back to the one before.
        shared_gradient_bytes: Gradients of weights that the first and the last stage both hold (tied embeddings).
    """

    chunks: tuple[tuple[Block, ...], ...]
    micro_batches: int
    optimizer: Work
    handed_bytes: tuple[float, ...] = ()
    returned_bytes: tuple[float, ...] = ()
    shared_gradient_bytes: float = 0.0

    @property
    def blocks(self) -> tuple[Block, ...]:
        """All blocks of the stage."""
        return tuple(block for chunk in self.chunks for block in chunk)

    @property
    def flop(self) -> float:
        """FLOP of a whole step on this rank, without the optimizer."""
        parts = (part for block in self.blocks for part in (*block.forward, *block.backward, *block.weight))
        return self.micro_batches * sum(part.work.flop for part in parts)

    @property
    def gradient_bytes(self) -> float:
        """Bytes of all gradients of this rank."""
        return sum(block.gradient_bytes for block in self.blocks)

    @property
    def parameter_bytes(self) -> float:
        """Bytes of all weights of this rank, in the precision it computes in."""
        return sum(self.parameter_bytes_by_group.values())

    @property
    def parameter_bytes_by_group(self) -> dict[str, float]:
        """The same by the kind of group that holds the same weights."""
        by_group: dict[str, float] = {}
        for block in self.blocks:
            by_group[block.over] = by_group.get(block.over, 0.0) + block.parameter_bytes
        return by_group


@dataclass(frozen=True, kw_only=True)
class StepSettings:
    """How a training step computes and stores.

    Args:
        precision: What the passes compute and store in.
        micro_batches: How many make a step.
        gradient_bytes_per_parameter: 4 for fp32 gradients, as PyTorch's AMP keeps them.
        optimizer: ``adam`` or ``sgd`` (with momentum).
        fused_optimizer: Whether the update is one kernel, or one for each operation (`update_work`).
        optimizer_shards: Ranks among which the weight update is divided (ZeRO, FSDP).
        expert_optimizer_shards: The same for the weights of divided experts.
        scatter_gather: Divide what stages hand on among the tensor-parallel ranks (Narayanan et al. 2021, §4.1).
        sequence_parallel: Each of these ranks has its part of the tokens only, so that nothing is gathered again.
        backward_layers_ratio: Host overhead of a layer's backward pass over that of its forward pass.
        split_backward: Keep the gradients of weights apart from those of inputs.
        recompute: What the backward pass computes again.
    """

    precision: Precision
    micro_batches: int = 1
    gradient_bytes_per_parameter: float = 4.0
    optimizer: str = "adam"
    fused_optimizer: bool = True
    optimizer_shards: int = 1
    expert_optimizer_shards: int = 1
    scatter_gather: bool = True
    sequence_parallel: bool = False
    backward_layers_ratio: float = 2.0
    split_backward: bool = False
    recompute: Recompute = Recompute.NONE


def training_plan(
    chunks: Sequence[ForwardPass],
    batch: Batch,
    settings: StepSettings,
    *,
    tied_parameters: float = 0.0,
    tensor: int = 1,
) -> TrainingPlan:
    """Turn a rank's share of the model into a training step.

    Args:
        chunks: The chunks of layers of the rank's pipeline stage.
        batch: One micro-batch.
        settings: How it computes and stores.
        tied_parameters: Weights that stand in two blocks of the stage but are stored and updated once.
        tensor: Tensor-parallel degree; the ranks of a stage share what they hand on.
    """
    precision = settings.precision
    blocks = [
        tuple(block for stretch in chunk.stretches for block in _blocks(stretch, batch, settings) * stretch.repeat)
        for chunk in chunks
    ]
    experts = sum(chunk.expert_parameters for chunk in chunks)
    rest = sum(chunk.parameters for chunk in chunks) - experts - tied_parameters
    if tied_parameters:
        blocks[-1] = _untie(blocks[-1], tied_parameters, settings)
    update = update_work(
        settings.optimizer,
        rest / settings.optimizer_shards + experts / settings.expert_optimizer_shards,
        fused=settings.fused_optimizer,
        half_copy=precision.weight_bytes < 4,
    )
    whole = batch.tokens * precision.activation_bytes
    if tensor > 1 and settings.scatter_gather and not settings.sequence_parallel:
        blocks = [_gathering(made, chunk, whole) for made, chunk in zip(blocks, chunks, strict=True)]
    each = whole / tensor if settings.scatter_gather or settings.sequence_parallel else whole
    return TrainingPlan(
        tuple(blocks),
        settings.micro_batches,
        update,
        handed_bytes=tuple(chunk.output_elements_per_token * each for chunk in chunks),
        returned_bytes=tuple(chunk.input_elements_per_token * each for chunk in chunks),
    )


def _gathering(blocks: tuple[Block, ...], chunk: ForwardPass, token_bytes: float) -> tuple[Block, ...]:
    """The blocks of a chunk that first gathers what the tensor-parallel ranks of its neighbours have divided."""

    def gather(elements: float) -> tuple[Part, ...]:
        return (Part(Work(), CollectiveKind.ALL_GATHER, elements * token_bytes),)

    if chunk.input_elements_per_token:
        first = blocks[0]
        blocks = (replace(first, forward=gather(chunk.input_elements_per_token) + first.forward), *blocks[1:])
    if chunk.hands_on:
        last = blocks[-1]
        blocks = (*blocks[:-1], replace(last, backward=gather(chunk.output_elements_per_token) + last.backward))
    return blocks


def model_flop(model: Model, batch: Batch) -> float:
    """FLOP of one forward and backward pass over `batch` without recomputation, on all ranks together."""
    return sum(
        (1.0 + block.backward_flop_ratio) * forward_work(block.operators, batch, Precision()).flop
        for block in model.blocks
    )


def _blocks(stretch: Stretch, batch: Batch, settings: StepSettings) -> tuple[Block, ...]:
    """One block of a stretch, or two if it has experts that are divided among ranks."""
    sent = [i for i, s in enumerate(stretch.segments) if s.exchange is not None and s.exchange.over == "expert"]
    if not sent:
        return (_block(stretch, batch, settings, "data"),)
    first = sent[0] + 1
    alike = replace(stretch, segments=stretch.segments[:first])
    experts = replace(stretch, name=f"{stretch.name} experts", segments=stretch.segments[first:])
    return _block(alike, batch, settings, "data"), _block(experts, batch, settings, "expert_data")


def _block(stretch: Stretch, batch: Batch, settings: StepSettings, over: str) -> Block:
    """Segments of a stretch that belong to one set of ranks, with their forward and backward work."""
    precision = settings.precision
    works = [forward_work(s.operators, batch, precision, layers=s.layers) for s in stretch.segments]
    forward = [
        _part(work, None if _keeps_logits(segment) else segment.exchange, batch, precision, beside=segment.beside)
        for segment, work in zip(stretch.segments, works, strict=True)
    ]
    share = 0.5 if settings.split_backward else 1.0
    gradients = [
        _gradients(work, share * stretch.backward_ratio, share * settings.backward_layers_ratio) for work in works
    ]
    backward = [*_recomputed(stretch, forward, batch, settings), *_backward(stretch, gradients, batch, precision)]
    held = sum(operator.parameters for segment in stretch.segments for operator in segment.operators)
    return Block(
        stretch.name,
        tuple(forward),
        tuple(_joined(backward)),
        over=over,
        gradient_bytes=held * settings.gradient_bytes_per_parameter,
        weight=tuple(Part(work) for work in reversed(gradients)) if settings.split_backward else (),
        parameter_bytes=held * precision.weight_bytes,
        matrices=tuple(weight_matrices(stretch.operators, stretch.output_elements_per_token)),
    )


def _gradients(forward: Work, flop_ratio: float, layers_ratio: float) -> Work:
    return replace(backward_work(forward, flop_ratio), layers=forward.layers * layers_ratio)


def _part(
    work: Work,
    exchange: Exchange | None,
    batch: Batch,
    precision: Precision,
    *,
    factor: float = 1.0,
    beside: bool = False,
) -> Part:
    if exchange is None:
        return Part(work)
    tokens = batch.logits if exchange.per_logit else batch.tokens
    nbytes = factor * tokens * exchange.elements_per_token * precision.activation_bytes
    return Part(work, exchange.kind, nbytes, exchange.over, beside)


def _recomputed(stretch: Stretch, forward: Sequence[Part], batch: Batch, settings: StepSettings) -> list[Part]:
    """What is computed again before a block's backward pass: all of it, exchanges included, or its attention core."""
    if settings.recompute is Recompute.FULL and stretch.checkpointed:
        return list(forward)
    if settings.recompute is not Recompute.SELECTIVE:
        return []
    parts = []
    for segment in stretch.segments:
        core = [operator for operator in segment.operators if operator.kind is OperatorKind.ATTENTION]
        if core:
            work = forward_work(core, batch, settings.precision, layers=0.0)
            parts.append(
                _part(work, segment.exchange, batch, settings.precision, beside=True) if segment.beside else Part(work)
            )
    return parts


def _backward(stretch: Stretch, gradients: Sequence[Work], batch: Batch, precision: Precision) -> list[Part]:
    """The backward pass of a block's segments, last first, with the exchanges before and after each."""
    parts: list[Part] = []
    previous: Segment | None = None
    for segment, work in zip(stretch.segments, gradients, strict=True):
        if segment.beside:
            parts = [*_backward_beside(segment, work, batch, precision, previous), *parts]
        else:
            before, after = _exchanges(segment, previous.exchange if previous and _gathers(previous) else None)
            alone = [_part(Work(), exchange, batch, precision) for exchange in before]
            parts = [*alone, _part(work, after, batch, precision), *parts]
        previous = segment
    return [part for part in parts if part.computes or part.kind is not None]


def _backward_beside(
    segment: Segment, work: Work, batch: Batch, precision: Precision, previous: Segment | None
) -> list[Part]:
    """The backward pass of a part of a ring; the gradients of keys and values go one step further, to their owner."""
    exchange = segment.exchange
    parts = [_part(work, exchange, batch, precision, factor=segment.backward_factor, beside=True)]
    begins = previous is None or not previous.beside
    if begins and exchange is not None and exchange.over == "context":
        parts.append(_part(Work(), exchange, batch, precision))
    return parts


def _joined(parts: Sequence[Part]) -> list[Part]:
    """The same with an exchange that comes alone put behind the computation before it, if that has none."""
    joined: list[Part] = []
    for part in parts:
        if part.computes or not joined or joined[-1].kind is not None:
            joined.append(part)
        else:
            joined[-1] = replace(part, work=joined[-1].work)
    return joined


def _exchanges(segment: Segment, gather: Exchange | None) -> tuple[list[Exchange], Exchange | None]:
    """What precedes and what follows the backward pass of a segment.

    Tensor parallelism (Shoeybi et al. 2019, §3): partial sums are added up in both passes. The logits stay divided:
    the loss needs a few numbers of each token only, which count as nothing; but the gradient of the head's input is a
    sum over the ranks. The gradients of an embedding stay where its rows are. Sequence parallelism (Korthikanti et
    al. 2022, §4.2.2): an all-gather becomes a reduce-scatter and vice versa, and the input of split operators, which
    was gathered and not kept, is gathered again for the gradients of their weights. What an all-to-all sent away
    comes back by another one.

    Args:
        segment: The operators, and what follows them in the forward pass.
        gather: The all-gather of the segment's input, if there was one.
    """
    exchange = segment.exchange
    before: list[Exchange] = []
    if exchange is not None and exchange.kind is CollectiveKind.REDUCE_SCATTER:
        before = [replace(exchange, kind=CollectiveKind.ALL_GATHER)]
    elif exchange is not None and exchange.kind is CollectiveKind.ALL_TO_ALL:
        before = [exchange]
    if gather is not None:
        return [*before, gather], replace(gather, kind=CollectiveKind.REDUCE_SCATTER)
    if _keeps_logits(segment):
        return before, Exchange(CollectiveKind.ALL_REDUCE, float(segment.operators[-1].inner), per_logit=True)
    summed = exchange is not None and exchange.kind is CollectiveKind.ALL_REDUCE and not segment.operators[-1].lookup
    return before, exchange if summed else None


def _keeps_logits(segment: Segment) -> bool:
    """Whether what follows is the gathering of logits, for which only inference has a use."""
    return segment.exchange is not None and any(o.per_logit and o.split is Split.VOCABULARY for o in segment.operators)


def _gathers(segment: Segment) -> bool:
    """Whether what follows is the gathering of hidden states for the next segment."""
    exchange = segment.exchange
    return exchange is not None and exchange.kind is CollectiveKind.ALL_GATHER and not _keeps_logits(segment)


def _untie(blocks: tuple[Block, ...], tied_parameters: float, settings: StepSettings) -> tuple[Block, ...]:
    """Count tied weights once: with the first block, where their gradients are complete last.

    In the last block they are the last matrix.
    """
    last = blocks[-1]
    gradient_bytes = last.gradient_bytes - tied_parameters * settings.gradient_bytes_per_parameter
    parameter_bytes = last.parameter_bytes - tied_parameters * settings.precision.weight_bytes
    untied = replace(last, gradient_bytes=gradient_bytes, parameter_bytes=parameter_bytes, matrices=last.matrices[:-1])
    return (*blocks[:-1], untied)
