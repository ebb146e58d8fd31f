"""The memory of micro-batches in pieces of the model, found once for equal pieces."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simsys.build.training_setup import TrainingSetup
from simsys.model.batch import Batch
from simsys.parallel.activations import (
    BlockMemory,
    Gathered,
    RecomputeSetting,
    block_memories,
    memory_of_blocks,
    recomputed_parts,
)
from simsys.parallel.passes import ForwardPass, RepeatedBlock
from simsys.searches.training.base import Base

Floats: TypeAlias = NDArray[np.float64]
Signature: TypeAlias = tuple[tuple[int, int], ...]
"""The stretches of a chunk: an identity of the layer, and the number of layers."""


class GatheredBytes(NamedTuple):
    """Bytes of a whole weight and of its unreduced gradient, and which weights are gathered at once."""

    weight: float
    gradient: float
    gathered: Gathered


class PieceMemory(NamedTuple):
    """Memory of a micro-batch in a chunk in bytes, by kind of recomputation.

    Args:
        kept: From its forward until its backward pass.
        passing: In addition at the peak of a pass; less than 0 where not all of the kept memory is needed then.
        gathered: Gathered weights between its passes, of any kind of recomputation and number of micro-batches.
    """

    kept: Floats
    passing: Floats
    gathered: int


@dataclass(frozen=True)
class Piece:
    """A chunk of layers of one stage."""

    chunk: ForwardPass
    signature: Signature


class Memories:
    """The memory of micro-batches.

    Args:
        base: The training.
    """

    def __init__(self, base: Base) -> None:
        self._base = base
        self._of_pieces: dict[tuple[Signature, int, GatheredBytes, bool], PieceMemory] = {}
        self._of_blocks: dict[tuple[Hashable, ...], tuple[BlockMemory, ...]] = {}

    def of(
        self, piece: Piece, setup: TrainingSetup, recomputes: Sequence[RecomputeSetting], gathered: GatheredBytes
    ) -> PieceMemory:
        """Memory of a micro-batch in a chunk, as `simsys memory` has it.

        Args:
            piece: The chunk.
            setup: The training with the size of the micro-batch.
            recomputes: Kinds of recomputation.
            gathered: Gathered weights.
        """
        size, whole = setup.settings.batch_size_per_gpu, setup.layout.pipeline == 1
        key = piece.signature, size, gathered, whole
        found = self._of_pieces.get(key)
        if found is None:
            batch, tied = setup.micro_batch(setup.phases[0]), setup.tied_parameters
            chunks = [
                memory_of_blocks(
                    piece.chunk,
                    [self._blocks(stretch, setup, batch, each, gathered) for stretch in piece.chunk.stretches],
                    batch,
                    self._base.precision,
                    gathered=gathered.gathered,
                    tied_bytes=(ceil(tied * gathered.weight), ceil(tied * gathered.gradient)),
                )
                for each in recomputes
            ]
            found = self._of_pieces[key] = PieceMemory(
                np.array([float(chunk.kept) for chunk in chunks]),
                np.array([float(sum(chunk.peak.values()) - chunk.kept) for chunk in chunks]),
                chunks[0].gathered,
            )
        return found

    def _blocks(
        self,
        stretch: RepeatedBlock,
        setup: TrainingSetup,
        batch: Batch,
        recompute: RecomputeSetting,
        gathered: GatheredBytes,
    ) -> tuple[BlockMemory, ...]:
        """Memory of a micro-batch in one block of a stretch, which chunks of any length have in common."""
        key = id(stretch.segments), setup.settings.batch_size_per_gpu, recompute, gathered
        found = self._of_blocks.get(key)
        if found is None:
            found = self._of_blocks[key] = block_memories(
                stretch,
                batch,
                self._base.precision,
                vocab_size=self._base.model.vocab_size / setup.layout.tensor,
                recompute=recomputed_parts(recompute),
                weight_bytes=gathered.weight,
                gradient_bytes=gathered.gradient,
            )
        return found
