"""What micro-batches hold in memory on their way through blocks: activations, logits, weights gathered for a while.

Activations follow Korthikanti et al. 2022, table 2. All sizes are whole bytes, so that their sums are exact.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import accumulate
from math import ceil
from typing import Literal, TypeAlias

from simsys.model.batch import Batch
from simsys.model.work import FP32_BYTES, Precision
from simsys.parallel.passes import ForwardPass, RepeatedBlock, apart
from simsys.parallel.recomputed_modules import CORE, saved_elements, without_parts
from simsys.sums import ordered_sum

ENDS = 3
"""Blocks at each end of a row of equal ones that are looked at one by one."""
LOGIT_COPIES = 2
"""The loss in 32 bit has the logits and their gradient, in addition to the kept logits in 16 bit. In training in 32
bit the kept elements of the head, which are counted for 16 bit, are these two."""

Gathered = Literal["none", "units", "all"]
"""Temporarily gathered part of sharded weights:

none (not sharded), two blocks (one computes while the next is gathered), or all.
"""


class Recompute(StrEnum):
    """Parts that the backward pass recomputes instead of keeping (Chen et al. 2016)."""

    NONE = "none"
    SELECTIVE = "selective"  # the attention core, from queries, keys and values (Korthikanti et al. 2022, §5)
    HALF = "half"  # half of each block: every second matrix product, or every second block
    FULL = "full"  # each block, from its input


RecomputeSetting: TypeAlias = str | tuple[str, ...]
"""A kind of recomputation, or modules, as in a scenario."""
Recomputed: TypeAlias = Recompute | tuple[str, ...]
"""A kind of recomputation, or the names of modules (`simsys.parallel.recomputed_modules`)."""


def recomputed_parts(setting: RecomputeSetting) -> Recomputed:
    """The parts that a setting names."""
    return Recompute(setting) if isinstance(setting, str) else tuple(setting)


def modules_of(recompute: Recomputed) -> tuple[str, ...]:
    """The modules that are recomputed as such: ``selective`` is the attention core."""
    if isinstance(recompute, tuple):
        return without_parts(recompute)
    return (CORE,) if recompute is Recompute.SELECTIVE else ()


@dataclass(frozen=True, slots=True)
class BlockMemory:
    """Memory of one micro-batch in a block, in bytes.

    Args:
        kept: From its forward until its backward pass.
        recomputed: In addition, during recomputation in the backward pass.
        logits: In addition, at the end of the forward and during the backward pass, for the loss.
        weights: In addition, the block's gathered weights, if they are sharded.
        gradients: In addition, its unreduced gradients, if they are sharded.
    """

    kept: int = 0
    recomputed: int = 0
    logits: int = 0
    weights: int = 0
    gradients: int = 0


NOTHING = BlockMemory()


@dataclass(frozen=True, slots=True)
class ChunkMemory:
    """Memory of one micro-batch in a chunk of blocks, in bytes.

    Args:
        kept: From its forward until its backward pass.
        shared: The part of it shared by blocks.
        peak: Peak memory of its passes, by component.
        gathered: Gathered weights from its forward until its backward pass, whatever the number of micro-batches in
            between: those of the last block, or all.
    """

    kept: int = 0
    shared: int = 0
    peak: Mapping[str, int] = field(default_factory=dict, hash=False)
    gathered: int = 0

    @property
    def passing(self) -> int:
        """Temporary memory of its passes, in addition to kept activations."""
        return max(0, sum(self.peak.values()) - self.kept)


def block_memories(
    stretch: RepeatedBlock,
    batch: Batch,
    precision: Precision,
    *,
    vocab_size: float = 0.0,
    recompute: Recomputed = Recompute.NONE,
    weight_bytes: float = 0.0,
    gradient_bytes: float = 0.0,
) -> tuple[BlockMemory, ...]:
    """Memory of a micro-batch in one block of a stretch, or in its parts if its experts are divided.

    Kept activations of a layer count with its first part; each part recomputes the whole layer. Arguments as for
    `chunk_memory`.
    """
    held = activation_elements(stretch, batch, recompute)
    more = max(0.0, activation_elements(stretch, batch) - held)  # a small block may keep less than its input
    logits = vocab_size * batch.logits if stretch.has_head else 0.0
    made = []
    for index, (half, _) in enumerate(apart(stretch)):
        made.append(
            BlockMemory(
                kept=0 if index else ceil(held * precision.activation_bytes),
                recomputed=ceil(more * precision.activation_bytes),
                logits=0 if precision.activation_bytes >= FP32_BYTES else ceil(logits * FP32_BYTES * LOGIT_COPIES),
                weights=ceil(half.parameters * weight_bytes + (half.frozen_bytes if weight_bytes else 0.0)),
                gradients=ceil(half.parameters * gradient_bytes),
            )
        )
    return tuple(made)


def chunk_memory(
    chunk: ForwardPass,
    batch: Batch,
    precision: Precision,
    *,
    vocab_size: float = 0.0,
    recompute: Recomputed = Recompute.NONE,
    gathered: Gathered = "none",
    weight_bytes: float = 0.0,
    gradient_bytes: float = 0.0,
    tied_parameters: float = 0.0,
) -> ChunkMemory:
    """Memory of a micro-batch in a chunk.

    Args:
        chunk: The rank's share of the layers.
        batch: One micro-batch; attention scores are kept if its attention is not fused.
        precision: Precision of kept activations.
        vocab_size: The rank's share of the vocabulary; counted if the chunk has the head.
        recompute: Parts that the backward pass recomputes.
        gathered: Gathered part of sharded weights.
        weight_bytes: Bytes per gathered weight.
        gradient_bytes: Bytes per unreduced gradient of a block, if gradients are sharded.
        tied_parameters: Weights of the last block that are also in the first one and count there.
    """
    each = [
        block_memories(
            stretch,
            batch,
            precision,
            vocab_size=vocab_size,
            recompute=recompute,
            weight_bytes=weight_bytes,
            gradient_bytes=gradient_bytes,
        )
        for stretch in chunk.stretches
    ]
    tied = ceil(tied_parameters * weight_bytes), ceil(tied_parameters * gradient_bytes)
    return memory_of_blocks(chunk, each, batch, precision, gathered=gathered, tied_bytes=tied)


def memory_of_blocks(
    chunk: ForwardPass,
    each: Sequence[Sequence[BlockMemory]],
    batch: Batch,
    precision: Precision,
    *,
    gathered: Gathered,
    tied_bytes: tuple[int, int],
) -> ChunkMemory:
    """As `chunk_memory`, from the memory of its blocks.

    Args:
        chunk: The rank's share of the layers.
        each: For each stretch, the memory of one block or of its parts.
        batch: One micro-batch.
        precision: Precision of kept activations.
        gathered: Gathered part of sharded weights.
        tied_bytes: Gathered weights and unreduced gradients of the last block that are also in the first one.
    """
    blocks, gaps = _shortened(chunk, each)
    if any(tied_bytes):
        last, (weights, gradients) = blocks[-1], tied_bytes
        blocks[-1] = replace(last, weights=last.weights - weights, gradients=last.gradients - gradients)
    shared = ceil(chunk.shared_elements_per_token * batch.tokens * precision.activation_bytes)
    return ChunkMemory(
        kept=shared + sum(block.kept for block in blocks),
        shared=shared,
        peak=_peak(blocks, gaps, shared, gathered),
        gathered=sum(block.weights for block in {"none": [], "units": blocks[-1:], "all": blocks}[gathered]),
    )


def _shortened(chunk: ForwardPass, each: Sequence[Sequence[BlockMemory]]) -> tuple[list[BlockMemory], set[int]]:
    """The blocks of a chunk, in which one stands for the middle of a long row of equal ones; its places."""
    blocks, gaps = list[BlockMemory](), set[int]()
    for stretch, own in zip(chunk.stretches, each, strict=True):
        middle = stretch.repeat - 2 * ENDS
        if middle <= 0:
            blocks.extend((*own,) * stretch.repeat)
            continue
        kept, weights = middle * sum(block.kept for block in own), middle * sum(block.weights for block in own)
        gaps.add(len(blocks) + ENDS * len(own))
        blocks.extend((*(*own,) * ENDS, BlockMemory(kept=kept, weights=weights), *(*own,) * ENDS))
    return blocks, gaps


def _peak(blocks: Sequence[BlockMemory], gaps: Collection[int], shared: int, gathered: Gathered) -> dict[str, int]:
    """Memory at the fullest moment of the forward and the backward pass.

    The backward pass goes through the blocks in reverse and frees the activations of each block, so a block is
    recomputed when less is held by later blocks. In a row of equal blocks, one near an end is the fullest.
    """
    sharded = gathered != "none"
    kept = list(accumulate((block.kept for block in blocks), initial=shared))
    weights = list(accumulate((block.weights for block in blocks), initial=0)) if sharded else [0] * (len(blocks) + 1)
    beside = {place for gap in gaps for place in (gap - 1, gap, gap + 1)}  # whose neighbours are not all single blocks
    places = [place for place in range(len(blocks)) if place not in beside]
    moments = []  # activations, recomputed, logits, gathered
    for place in places:
        whole = weights[min(place + 2, len(blocks))] - weights[0 if gathered == "all" else place]
        moments.append((kept[place + 1], 0, blocks[place].logits, whole))
    for place in reversed(places):
        block = blocks[place]
        whole = weights[place + 1] - weights[0 if gathered == "all" else max(0, place - 1)]
        moments.append((kept[place + 1], block.recomputed, block.logits, whole))
        if block.gradients:
            moments.append((kept[place], 0, 0, whole + block.gradients if sharded else 0))
    activations, recomputed, logits, whole = max(moments, key=sum)
    parts = {"activations": activations, "recomputed": recomputed, "logits": logits}
    return {"gathered": whole, **parts} if sharded else parts


def activation_elements(stretch: RepeatedBlock, batch: Batch, recompute: Recomputed = Recompute.NONE) -> float:
    """Elements that a rank keeps of one block and one micro-batch until its backward pass."""
    if recompute is Recompute.FULL and stretch.checkpointed:
        return stretch.input_elements_per_token * batch.tokens + stretch.input_elements_per_logit * batch.logits
    if recompute is Recompute.HALF:
        both = (activation_elements(stretch, batch, other) for other in (Recompute.NONE, Recompute.FULL))
        return ordered_sum(both) / 2.0
    modules = modules_of(recompute)
    elements = stretch.activation_elements_per_token * batch.tokens
    elements += stretch.activation_elements_per_logit * batch.logits
    if saved := saved_elements(stretch.module_elements, modules):
        elements -= saved * batch.tokens
    if batch.unfused_attention and recompute is not Recompute.FULL and CORE not in modules:
        elements += ordered_sum(
            operator.kept_elements_per_pair * batch.pairs(operator.pairs) for operator in stretch.operators
        )
    return elements
