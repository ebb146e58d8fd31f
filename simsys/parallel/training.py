"""From a rank's share of the model to its training step: forward and backward work of blocks, and the optimizer's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from simsys.collectives.base import CollectiveKind
from simsys.model.batch import Batch
from simsys.model.model import Model
from simsys.model.operators import Operator, OperatorKind
from simsys.model.work import FP32_BYTES, Kernel, Precision, Work, both_passes_flop, forward_work
from simsys.parallel.activations import (
    BlockMemory,
    Recompute,
    Recomputed,
    block_memories,
    chunk_memory,
    modules_of,
)
from simsys.parallel.backward import (
    again_in_attention,
    backward_parts,
    gradients_of,
    joined,
    keeps_logits,
    part_of,
    recomputed,
)
from simsys.parallel.compression import weight_matrices
from simsys.parallel.elementwise import work_of
from simsys.parallel.optimizer import update_work
from simsys.parallel.passes import ForwardPass, RepeatedBlock, apart, is_checkpointed
from simsys.parallel.plan import Block, Part, StepSettings, TrainingPlan
from simsys.parallel.recomputed_modules import runs_again
from simsys.sums import ordered_sum

ACCUMULATION_BYTES = 8.0
"""What adding a micro-batch's gradients to those before moves for each weight: both in 16 bit are read, their sum
written, or it is added in 32 bit along with the product that makes it (Megatron-LM: gradient_accumulation_fusion)."""

RECOMPUTED_SHARE = {Recompute.NONE: 0.0, Recompute.HALF: 0.5, Recompute.FULL: 1.0}
"""Recomputed share of the forward work of whole blocks, by kind of recomputation (`simsys.parallel.backward`)."""


def training_plan(
    chunks: Sequence[ForwardPass],
    batch: Batch,
    settings: StepSettings,
    *,
    tied_parameters: float = 0.0,
    tensor: int = 1,
    vocab_size: float = 0.0,
) -> TrainingPlan:
    """Turn a rank's share of the model into a training step.

    Args:
        chunks: The chunks of layers of the rank's pipeline stage.
        batch: One micro-batch.
        settings: Settings of computation and memory.
        tied_parameters: Weights in two blocks of the stage that are stored and updated once.
        tensor: Tensor-parallel degree; the ranks of a stage divide its messages.
        vocab_size: The rank's share of the vocabulary.
    """
    precision = settings.precision
    blocks = [_chunk_blocks(chunk, batch, settings, vocab_size) for chunk in chunks]
    if tied_parameters:
        blocks[-1] = _untie(blocks[-1], tied_parameters, settings)
    updated = _updated_parameters(chunks, settings, tied_parameters)
    half_copy = precision.weight_bytes < 4
    update = update_work(settings.optimizer, updated, fused=settings.fused_optimizer, half_copy=half_copy)
    update = replace(update, host_s=settings.per_step_s)
    if tensor > 1 and settings.scatter_gather and not settings.sequence_parallel:
        blocks = [_gathering(made, chunk, batch, precision) for made, chunk in zip(blocks, chunks, strict=True)]
    sharing = tensor if settings.scatter_gather or settings.sequence_parallel else 1
    return TrainingPlan(
        tuple(blocks),
        settings.micro_batches,
        update,
        handed_bytes=tuple(_handed_bytes(chunk, batch, precision) / sharing for chunk in chunks),
        returned_bytes=tuple(_returned_bytes(chunk, batch, precision) / sharing for chunk in chunks),
        memory=tuple(
            chunk_memory(chunk, batch, precision, vocab_size=vocab_size, recompute=settings.recompute)
            for chunk in chunks
        ),
        host_update_bytes=update_work(settings.optimizer, updated, half_copy=half_copy).nbytes,
        waits_for_sends=not settings.p2p_overlap,
    )


def _updated_parameters(chunks: Sequence[ForwardPass], settings: StepSettings, tied_parameters: float) -> float:
    """Weights updated by the rank: its shares of expert weights and of other weights."""
    experts = ordered_sum(chunk.expert_parameters for chunk in chunks)
    rest = ordered_sum(chunk.parameters for chunk in chunks) - experts - tied_parameters
    return rest / settings.optimizer_shards + experts / settings.expert_optimizer_shards


def _handed_bytes(chunk: ForwardPass, batch: Batch, precision: Precision) -> float:
    """Undivided bytes that a micro-batch sends to the next chunk."""
    of_token, of_logit = chunk.output_elements_per_token, chunk.output_elements_per_logit
    return (of_token * batch.tokens + of_logit * batch.logits) * precision.activation_bytes


def _returned_bytes(chunk: ForwardPass, batch: Batch, precision: Precision) -> float:
    """The gradient that it hands back to the chunk before, whole."""
    of_token, of_logit = chunk.input_elements_per_token, chunk.input_elements_per_logit
    return (of_token * batch.tokens + of_logit * batch.logits) * precision.activation_bytes


def _gathering(blocks: tuple[Block, ...], chunk: ForwardPass, batch: Batch, precision: Precision) -> tuple[Block, ...]:
    """The blocks of a chunk with a gather of its divided inputs first."""

    def gather(nbytes: float) -> tuple[Part, ...]:
        return (Part(Work(), CollectiveKind.ALL_GATHER, nbytes),)

    if received := _returned_bytes(chunk, batch, precision):
        first = blocks[0]
        blocks = (replace(first, forward=gather(received) + first.forward), *blocks[1:])
    if chunk.hands_on:
        last, received = blocks[-1], _handed_bytes(chunk, batch, precision)
        blocks = (*blocks[:-1], replace(last, backward=gather(received) + last.backward))
    return blocks


def model_flop(model: Model, batch: Batch) -> float:
    """FLOP of one forward and backward pass over `batch` without recomputation, on all ranks together."""
    return ordered_sum(both_passes_flop(block.operators, block.backward_flop_ratio, batch) for block in model.blocks)


def recomputed_flop(model: Model, batch: Batch, recompute: Recomputed) -> float:
    """FLOP of recomputation in the backward pass over `batch`, summed over all ranks.

    Args:
        model: The model.
        batch: The batch of the passes.
        recompute: The recomputed parts.
    """
    flop, modules = 0.0, modules_of(recompute)
    for block in model.blocks:
        operators: Sequence[Operator] = block.operators
        if modules:
            operators = [operator for operator in operators if runs_again(operator, modules)]
        elif not is_checkpointed(operators):
            continue
        share = RECOMPUTED_SHARE[recompute] if isinstance(recompute, Recompute) and not modules else 1.0
        flop += share * forward_work(operators, batch, Precision()).flop
    return flop


def _chunk_blocks(chunk: ForwardPass, batch: Batch, settings: StepSettings, vocab_size: float) -> tuple[Block, ...]:
    """The blocks of a chunk in forward order; equal layers are the same objects."""
    return tuple(
        block
        for stretch in chunk.stretches
        for block in _blocks(stretch, batch, settings, vocab_size) * stretch.repeat
    )


def _blocks(stretch: RepeatedBlock, batch: Batch, settings: StepSettings, vocab_size: float) -> tuple[Block, ...]:
    """One block of a stretch, or several if it has experts that are divided among ranks."""
    memories = block_memories(stretch, batch, settings.precision, vocab_size=vocab_size, recompute=settings.recompute)
    return tuple(
        _block(half, batch, settings, over, memory, vocab_size)
        for (half, over), memory in zip(apart(stretch), memories, strict=True)
    )


def _block(
    stretch: RepeatedBlock, batch: Batch, settings: StepSettings, over: str, memory: BlockMemory, vocab_size: float
) -> Block:
    """Segments of a stretch that belong to one set of ranks, with their forward and backward work."""
    precision = settings.precision
    works = [work_of(s.operators, batch, settings, layers=s.layers) for s in stretch.segments]
    loss = _loss_kernel(stretch, batch, settings, vocab_size)
    forward = [
        part_of(work, None if keeps_logits(each) else each.exchange, batch, precision, overlapped=each.overlapped)
        for each, work in zip(stretch.segments, works, strict=True)
    ]
    share = 0.5 if settings.split_backward else 1.0
    gradients = [
        gradients_of(work, share * stretch.backward_ratio, share * settings.backward_layers_ratio) for work in works
    ]
    if not batch.unfused_attention:
        gradients = [again_in_attention(work) for work in gradients]
    backward = [*recomputed(stretch, forward, batch, settings), *backward_parts(stretch, gradients, batch, precision)]
    held = ordered_sum(operator.parameters for segment in stretch.segments for operator in segment.operators)
    if loss is not None:
        forward, backward = _with_kernel(forward, loss, -1), _with_kernel(backward, loss, 0)
    if settings.micro_batches > 1 and held:
        backward = _with_kernel(backward, _memory_kernel(ACCUMULATION_BYTES * held), -1)
    for role, of_passes in _copies(settings):
        forward = _with_kernel(forward, _memory_kernel(of_passes[0] * held, role), 0) if of_passes[0] else forward
        backward = _with_kernel(backward, _memory_kernel(of_passes[1] * held, role), -1) if of_passes[1] else backward
    return Block(
        stretch.name,
        tuple(forward),
        tuple(joined(backward)),
        over=over,
        memory=memory,
        gradient_bytes=held * settings.gradient_bytes_per_parameter,
        weight=tuple(Part(work) for work in reversed(gradients)) if settings.split_backward else (),
        parameter_bytes=held * precision.weight_bytes,
        frozen_bytes=stretch.frozen_bytes,
        matrices=tuple(weight_matrices(stretch.operators, stretch.output_elements_per_token)),
        tensor_bytes=tuple(_tensor_bytes(stretch, settings, vocab_size)),
    )


def _copies(settings: StepSettings) -> list[tuple[str, tuple[float, float]]]:
    """Copies of weights and gradients in the two passes: role of the kernel, and bytes per weight."""
    cast = settings.cast_bytes_per_weight if settings.precision.weight_bytes < FP32_BYTES else 0.0
    return [("", (cast, cast)), ("buffers", settings.copied_bytes_per_weight)]


def _tensor_bytes(stretch: RepeatedBlock, settings: StepSettings, vocab_size: float) -> Iterator[float]:
    """Gradient bytes of each tensor of a block, the last operator first; of each operator, of its weights last."""
    for segment in reversed(stretch.segments):
        for operator in reversed(segment.operators):
            weights = _weights(operator, stretch, vocab_size)
            pieces = [operator.parameters - weights, weights]
            yield from (settings.gradient_bytes_per_parameter * piece for piece in pieces if piece > 0.0)


def _weights(operator: Operator, stretch: RepeatedBlock, vocab_size: float) -> float:
    """Number of elements of the largest tensor of an operator: its matrix, its tokens, or the weights of its norm."""
    width = stretch.input_elements_per_token
    if operator.lookup:
        return min(operator.parameters, vocab_size * stretch.output_elements_per_token)
    if operator.inner and operator.columns and operator.experts == 1:
        return min(operator.parameters, float(operator.inner * operator.columns))
    if operator.name == "pooler":
        return operator.parameters - width
    one = operator.role != "norm" or operator.name.endswith("output_norm") or operator.parameters == width
    return operator.parameters if one else operator.parameters / 2.0


def _loss_kernel(stretch: RepeatedBlock, batch: Batch, settings: StepSettings, vocab_size: float) -> Kernel | None:
    """Memory traffic of the loss in one of the two passes; zero without a head."""
    nbytes = settings.loss_bytes_per_logit * vocab_size * batch.logits / 2.0
    return _memory_kernel(nbytes) if nbytes and any(op.is_head for op in stretch.operators) else None


def _with_kernel(parts: Sequence[Part], kernel: Kernel, place: int) -> list[Part]:
    """The parts with one more kernel in the first (0) or last (-1) computing part."""
    computing = [index for index, part in enumerate(parts) if part.computes]
    if not computing:
        return [*parts, Part(Work((kernel,)))]
    chosen = computing[place]
    work = parts[chosen].work
    return [
        replace(part, work=replace(work, kernels=(*work.kernels, kernel))) if index == chosen else part
        for index, part in enumerate(parts)
    ]


def _memory_kernel(nbytes: float, role: str = "") -> Kernel:
    return Kernel(OperatorKind.MEMORY, flop=0.0, nbytes=nbytes, role=role)


def _untie(blocks: tuple[Block, ...], tied_parameters: float, settings: StepSettings) -> tuple[Block, ...]:
    """Count tied weights once: with the first block, where their gradients are complete last.

    In the last block they are the last matrix.
    """
    last = blocks[-1]
    gradient_bytes = last.gradient_bytes - tied_parameters * settings.gradient_bytes_per_parameter
    parameter_bytes = last.parameter_bytes - tied_parameters * settings.precision.weight_bytes
    untied = replace(
        last,
        gradient_bytes=gradient_bytes,
        parameter_bytes=parameter_bytes,
        matrices=last.matrices[:-1],
        tensor_bytes=last.tensor_bytes[1:],
    )
    return (*blocks[:-1], untied)
