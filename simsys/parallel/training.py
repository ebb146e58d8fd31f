"""The work of one training step on one rank: blocks with their forward and backward work, and the optimizer's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from simsys.collectives.base import CollectiveKind
from simsys.model.work import Batch, Kernel, Model, OperatorKind, Precision, Split, Work, backward_work, forward_work
from simsys.parallel.passes import Exchange, ForwardPass, Segment, Stretch

ADAM_BYTES_PER_PARAMETER = 28.0
"""Read weight, momentum, variance and gradient, write the first three: 7 × 4 bytes (Kingma & Ba 2015, alg. 1)."""
SGD_BYTES_PER_PARAMETER = 20.0
"""Read weight, momentum and gradient, write weight and momentum: 5 × 4 bytes."""
OPTIMIZER_BYTES = {"adam": ADAM_BYTES_PER_PARAMETER, "sgd": SGD_BYTES_PER_PARAMETER}
HALF_COPY_BYTES = 2.0
"""Mixed precision also writes the 16-bit copy of each weight."""


class Recompute(StrEnum):
    """What the backward pass computes again instead of having kept it (Chen et al. 2016)."""

    NONE = "none"
    SELECTIVE = "selective"  # the attention core, from queries, keys and values (Korthikanti et al. 2022, §5)
    FULL = "full"  # each block, from its input


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Computation (possibly none), then possibly a collective of the tensor-parallel group."""

    work: Work
    kind: CollectiveKind | None = None
    nbytes: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """One block of the model in a training step; equal layers are the same object.

    Args:
        name: Such as ``layer``.
        forward: What the forward pass of a micro-batch runs.
        backward: What its backward pass runs.
        gradient_bytes: Bytes of this rank's gradients of the block.
        weight: What of the backward pass is put off: the gradients of the weights, in schedules that split it.
        parameter_bytes: Bytes of this rank's weights of the block, in the precision it computes in; weights that
            stand in two blocks count with the first.
    """

    name: str
    forward: tuple[Part, ...]
    backward: tuple[Part, ...]
    gradient_bytes: float
    weight: tuple[Part, ...] = ()
    parameter_bytes: float = 0.0


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
        return sum(block.parameter_bytes for block in self.blocks)


@dataclass(frozen=True, kw_only=True)
class StepSettings:
    """How a training step computes and stores.

    Args:
        precision: What the passes compute and store in.
        micro_batches: How many make a step.
        gradient_bytes_per_parameter: 4 for fp32 gradients, as PyTorch's AMP keeps them.
        optimizer: A key of `OPTIMIZER_BYTES`.
        optimizer_shards: Ranks among which the weight update is divided (ZeRO, FSDP).
        backward_layers_ratio: Host overhead of a layer's backward pass over that of its forward pass.
        split_backward: Keep the gradients of weights apart from those of inputs.
        recompute: What the backward pass computes again.
    """

    precision: Precision
    micro_batches: int = 1
    gradient_bytes_per_parameter: float = 4.0
    optimizer: str = "adam"
    optimizer_shards: int = 1
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
    blocks = [[_block(stretch, batch, settings) for stretch in chunk.stretches] for chunk in chunks]
    repeated = [
        tuple(block for block, stretch in zip(made, chunk.stretches, strict=True) for _ in range(stretch.repeat))
        for made, chunk in zip(blocks, chunks, strict=True)
    ]
    per_parameter = settings.gradient_bytes_per_parameter
    parameters = sum(block.gradient_bytes for chunk in repeated for block in chunk) / per_parameter - tied_parameters
    if tied_parameters:
        repeated[-1] = _untie(repeated[-1], tied_parameters, settings)
    nbytes_each = OPTIMIZER_BYTES[settings.optimizer] + (HALF_COPY_BYTES if precision.weight_bytes < 4 else 0.0)
    update = Kernel(OperatorKind.MEMORY, flop=0.0, nbytes=nbytes_each * parameters / settings.optimizer_shards)
    each, of_logit = (count * precision.activation_bytes / tensor for count in (batch.tokens, batch.logits))
    return TrainingPlan(
        tuple(repeated),
        settings.micro_batches,
        Work((update,)),
        handed_bytes=tuple(
            chunk.output_elements_per_token * each + chunk.output_elements_per_logit * of_logit for chunk in chunks
        ),
        returned_bytes=tuple(
            chunk.input_elements_per_token * each + chunk.input_elements_per_logit * of_logit for chunk in chunks
        ),
    )


def model_flop(model: Model, batch: Batch) -> float:
    """FLOP of one forward and backward pass over `batch` without recomputation, on all ranks together."""
    return sum(
        (1.0 + block.backward_flop_ratio) * forward_work(block.operators, batch, Precision()).flop
        for block in model.blocks
    )


def _block(stretch: Stretch, batch: Batch, settings: StepSettings) -> Block:
    """One block of a stretch, with its forward and backward work."""
    precision = settings.precision
    works = [forward_work(s.operators, batch, precision, layers=s.layers) for s in stretch.segments]
    forward = [
        _part(work, None if _keeps_logits(segment) else segment.exchange, batch, precision)
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
        gradient_bytes=held * settings.gradient_bytes_per_parameter,
        weight=tuple(Part(work) for work in reversed(gradients)) if settings.split_backward else (),
        parameter_bytes=held * precision.weight_bytes,
    )


def _gradients(forward: Work, flop_ratio: float, layers_ratio: float) -> Work:
    return replace(backward_work(forward, flop_ratio), layers=forward.layers * layers_ratio)


def _part(work: Work, exchange: Exchange | None, batch: Batch, precision: Precision) -> Part:
    if exchange is None:
        return Part(work)
    tokens = batch.logits if exchange.per_logit else batch.tokens
    return Part(work, exchange.kind, tokens * exchange.elements_per_token * precision.activation_bytes)


def _recomputed(stretch: Stretch, forward: Sequence[Part], batch: Batch, settings: StepSettings) -> list[Part]:
    """What is computed again before a block's backward pass: all of it, exchanges included, or its attention core."""
    if settings.recompute is Recompute.FULL and stretch.checkpointed:
        return list(forward)
    if settings.recompute is not Recompute.SELECTIVE:
        return []
    core = [operator for operator in stretch.operators if operator.kind is OperatorKind.ATTENTION]
    return [Part(forward_work(core, batch, settings.precision, layers=0.0))] if core else []


def _backward(stretch: Stretch, gradients: Sequence[Work], batch: Batch, precision: Precision) -> list[Part]:
    """The backward pass of a block's segments, last first, with the exchanges before and after each."""
    parts: list[Part] = []
    previous: Segment | None = None
    for segment, work in zip(stretch.segments, gradients, strict=True):
        before, after = _exchanges(segment, previous.exchange if previous and _gathers(previous) else None)
        alone = [_part(Work(), exchange, batch, precision) for exchange in before]
        sums = [_part(Work(), exchange, batch, precision) for exchange in _second_inputs(segment)]
        parts = [*alone, _part(work, after, batch, precision), *sums, *parts]
        previous = segment
    return parts


def _joined(parts: Sequence[Part]) -> list[Part]:
    """The same with an exchange that comes alone put behind the computation before it, if that has none."""
    joined: list[Part] = []
    for part in parts:
        if part.work.kernels or part.work.layers or not joined or joined[-1].kind is not None:
            joined.append(part)
        else:
            joined[-1] = Part(joined[-1].work, part.kind, part.nbytes)
    return joined


def _exchanges(segment: Segment, gather: Exchange | None) -> tuple[list[Exchange], Exchange | None]:
    """What precedes and what follows the backward pass of a segment.

    Tensor parallelism (Shoeybi et al. 2019, §3): partial sums are added up in both passes. The logits stay divided:
    the loss needs a few numbers of each token only, which count as nothing; but the gradient of the head's input is a
    sum over the ranks. The gradients of an embedding stay where its rows are. Sequence parallelism (Korthikanti et
    al. 2022, §4.2.2): an all-gather becomes a reduce-scatter and vice versa, and the input of split operators, which
    was gathered and not kept, is gathered again for the gradients of their weights.

    Args:
        segment: The operators, and what follows them in the forward pass.
        gather: The all-gather of the segment's input, if there was one.
    """
    exchange = segment.exchange
    before: list[Exchange] = []
    if exchange is not None and exchange.kind is CollectiveKind.REDUCE_SCATTER:
        before = [replace(exchange, kind=CollectiveKind.ALL_GATHER)]
    if gather is not None:
        return [*before, gather], replace(gather, kind=CollectiveKind.REDUCE_SCATTER)
    if _keeps_logits(segment):
        return before, Exchange(CollectiveKind.ALL_REDUCE, float(segment.operators[-1].inner), per_logit=True)
    summed = exchange is not None and exchange.kind is CollectiveKind.ALL_REDUCE and not segment.operators[-1].lookup
    return before, exchange if summed else None


def _second_inputs(segment: Segment) -> list[Exchange]:
    """The sum of a second gradient: cross-attention has two inputs, the decoder's tokens and the encoder's."""
    exchange = segment.exchange
    if exchange is None or exchange.kind is not CollectiveKind.ALL_REDUCE:
        return []
    products = (o for o in segment.operators if o.split is Split.COLUMN and o.kind is OperatorKind.GEMM)
    return [
        Exchange(CollectiveKind.ALL_REDUCE, float(o.inner), per_logit=o.per_logit)
        for o in products
        if o.per_logit != exchange.per_logit
    ]


def _keeps_logits(segment: Segment) -> bool:
    """Whether what follows is the gathering of logits, for which only inference has a use."""
    return segment.exchange is not None and any(o.is_head for o in segment.operators)


def _gathers(segment: Segment) -> bool:
    """Whether what follows is the gathering of hidden states for the next segment."""
    exchange = segment.exchange
    return exchange is not None and exchange.kind is CollectiveKind.ALL_GATHER and not _keeps_logits(segment)


def _untie(blocks: tuple[Block, ...], tied_parameters: float, settings: StepSettings) -> tuple[Block, ...]:
    """Count tied weights once: with the first block, where their gradients are complete last."""
    last = blocks[-1]
    gradient_bytes = last.gradient_bytes - tied_parameters * settings.gradient_bytes_per_parameter
    parameter_bytes = last.parameter_bytes - tied_parameters * settings.precision.weight_bytes
    return (*blocks[:-1], replace(last, gradient_bytes=gradient_bytes, parameter_bytes=parameter_bytes))
