"""The work of one training step on one rank: blocks with their forward and backward work, and the optimizer's."""

from __future__ import annotations

from dataclasses import dataclass, replace

from simsys.collectives.base import CollectiveKind
from simsys.model.work import Batch, Kernel, OperatorKind, Precision, Work, backward_work, forward_work
from simsys.parallel.passes import Exchange, ForwardPass, Segment

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
    """

    name: str
    forward: tuple[Part, ...]
    backward: tuple[Part, ...]
    gradient_bytes: float


@dataclass(frozen=True, slots=True, eq=False)
class TrainingPlan:
    """One rank's training step.

    Args:
        blocks: In forward order.
        micro_batches: Forward-backward passes per step (gradient accumulation).
        optimizer: Work of the weight update.
    """

    blocks: tuple[Block, ...]
    micro_batches: int
    optimizer: Work

    @property
    def flop(self) -> float:
        """FLOP of a whole step on this rank, without the optimizer."""
        parts = (part for block in self.blocks for part in (*block.forward, *block.backward))
        return self.micro_batches * sum(part.work.flop for part in parts)

    @property
    def gradient_bytes(self) -> float:
        """Bytes of all gradients of this rank."""
        return sum(block.gradient_bytes for block in self.blocks)


def training_plan(
    plan: ForwardPass,
    batch: Batch,
    precision: Precision,
    *,
    micro_batches: int = 1,
    gradient_bytes_per_parameter: float = 4.0,
    optimizer: str = "adam",
    tied_parameters: float = 0.0,
    backward_layers_ratio: float = 2.0,
) -> TrainingPlan:
    """Turn a forward pass into a training step.

    Args:
        plan: One rank's share of the model.
        batch: One micro-batch.
        precision: What the passes compute and store in.
        micro_batches: How many of them make a step.
        gradient_bytes_per_parameter: 4 for fp32 gradients, as PyTorch's AMP keeps them.
        optimizer: A key of `OPTIMIZER_BYTES`.
        tied_parameters: Weights that stand in two blocks but are stored and updated once.
        backward_layers_ratio: Host overhead of a layer's backward pass over that of its forward pass.
    """
    blocks: list[Block] = []
    parameters = -tied_parameters
    for stretch in plan.stretches:
        forward, backward = [], []
        for segment in stretch.segments:
            work = forward_work(segment.operators, batch, precision, layers=segment.layers)
            after_forward, after_backward = _exchanges(segment)
            forward.append(_part(work, after_forward, batch, precision))
            work = _backward(work, stretch.backward_ratio, backward_layers_ratio)
            backward.append(_part(work, after_backward, batch, precision))
        held = sum(operator.parameters for segment in stretch.segments for operator in segment.operators)
        block = Block(stretch.name, tuple(forward), tuple(reversed(backward)), held * gradient_bytes_per_parameter)
        blocks += [block] * stretch.repeat
        parameters += held * stretch.repeat
    nbytes_each = OPTIMIZER_BYTES[optimizer] + (HALF_COPY_BYTES if precision.weight_bytes < 4 else 0.0)
    update = Kernel(OperatorKind.MEMORY, flop=0.0, nbytes=nbytes_each * parameters)
    blocks = _untie(blocks, tied_parameters * gradient_bytes_per_parameter)
    return TrainingPlan(tuple(blocks), micro_batches, Work((update,)))


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


def _untie(blocks: list[Block], tied_bytes: float) -> list[Block]:
    """Count the gradients of tied weights once: with the first block, where they are complete last."""
    if not tied_bytes:
        return blocks
    last = blocks[-1]
    return [*blocks[:-1], Block(last.name, last.forward, last.backward, last.gradient_bytes - tied_bytes)]
