"""The work of one training step on one rank: blocks with their forward and backward work, and the optimizer's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from simsys.collectives.base import CollectiveKind
from simsys.model.work import Batch, Kernel, OperatorKind, Precision, Work, backward_work, forward_work
from simsys.parallel.passes import Exchange, ForwardPass, Segment, Stretch

ADAM_BYTES_PER_PARAMETER = 28.0
"""Read weight, momentum, variance and gradient, write the first three: 7 × 4 bytes (Kingma & Ba 2015, alg. 1)."""
SGD_BYTES_PER_PARAMETER = 20.0
"""Read weight, momentum and gradient, write weight and momentum: 5 × 4 bytes."""
OPTIMIZER_BYTES = {"adam": ADAM_BYTES_PER_PARAMETER, "sgd": SGD_BYTES_PER_PARAMETER}
HALF_COPY_BYTES = 2.0
"""Mixed precision also writes the 16-bit copy of each weight."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Computation, then possibly a collective of the tensor-parallel group."""

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
        parameter_bytes: Bytes of this rank's weights of the block, in the precision it computes in.
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
        boundary_bytes: What a micro-batch hands to the next stage (and its gradient to the one before).
    """

    chunks: tuple[tuple[Block, ...], ...]
    micro_batches: int
    optimizer: Work
    boundary_bytes: float = 0.0

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
    """

    precision: Precision
    micro_batches: int = 1
    gradient_bytes_per_parameter: float = 4.0
    optimizer: str = "adam"
    optimizer_shards: int = 1
    backward_layers_ratio: float = 2.0
    split_backward: bool = False


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
        repeated[-1] = _untie(repeated[-1], tied_parameters * per_parameter)
    nbytes_each = OPTIMIZER_BYTES[settings.optimizer] + (HALF_COPY_BYTES if precision.weight_bytes < 4 else 0.0)
    update = Kernel(OperatorKind.MEMORY, flop=0.0, nbytes=nbytes_each * parameters / settings.optimizer_shards)
    handed = chunks[-1].output_elements_per_token * batch.tokens * precision.activation_bytes
    return TrainingPlan(tuple(repeated), settings.micro_batches, Work((update,)), boundary_bytes=handed / tensor)


def _block(stretch: Stretch, batch: Batch, settings: StepSettings) -> Block:
    """One block of a stretch, with its forward and backward work."""
    forward, backward, weight = [], [], []
    precision = settings.precision
    for segment in stretch.segments:
        work = forward_work(segment.operators, batch, precision, layers=segment.layers)
        after_forward, after_backward = _exchanges(segment)
        forward.append(_part(work, after_forward, batch, precision))
        share = 0.5 if settings.split_backward else 1.0
        gradients = _backward(work, share * stretch.backward_ratio, share * settings.backward_layers_ratio)
        backward.append(_part(gradients, after_backward, batch, precision))
        if settings.split_backward:
            weight.append(Part(gradients))
    held = sum(operator.parameters for segment in stretch.segments for operator in segment.operators)
    return Block(
        stretch.name,
        tuple(forward),
        tuple(reversed(backward)),
        gradient_bytes=held * settings.gradient_bytes_per_parameter,
        weight=tuple(reversed(weight)),
        parameter_bytes=held * precision.weight_bytes,
    )


def _backward(forward: Work, flop_ratio: float, layers_ratio: float) -> Work:
    return replace(backward_work(forward, flop_ratio), layers=forward.layers * layers_ratio)


def _part(work: Work, exchange: Exchange | None, batch: Batch, precision: Precision) -> Part:
    if exchange is None:
        return Part(work)
    tokens = batch.logits if exchange.per_logit else batch.tokens
    return Part(work, exchange.kind, tokens * exchange.elements_per_token * precision.activation_bytes)


def _exchanges(segment: Segment) -> tuple[Exchange | None, Exchange | None]:
    """What follows a segment in the forward and in the backward pass of a training step (Shoeybi et al. 2019, §3).

    Partial sums are added up in both. The logits stay divided: the loss needs a few numbers of each token only,
    which count as nothing; but the gradient of the head's input is a sum over the ranks. The gradients of an
    embedding stay where its rows are.
    """
    exchange, last = segment.exchange, segment.operators[-1]
    if exchange is None or last.lookup:
        return exchange, None
    if exchange.per_logit:
        return None, Exchange(CollectiveKind.ALL_REDUCE, float(last.inner), per_logit=True)
    return exchange, exchange


def _untie(blocks: tuple[Block, ...], tied_bytes: float) -> tuple[Block, ...]:
    """Count the gradients of tied weights once: with the first block, where they are complete last."""
    last = blocks[-1]
    return (*blocks[:-1], replace(last, gradient_bytes=last.gradient_bytes - tied_bytes))
