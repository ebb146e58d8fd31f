"""A lower bound of the iteration time of all variants of a division with one order of micro-batches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simsys.build.training_setup import TrainingSetup
from simsys.parallel.optimizer import update_work
from simsys.parallel.plan import Block
from simsys.searches.training.base import Base
from simsys.searches.training.exposed import LeastExchange, least_exchange
from simsys.searches.training.groups import Groups
from simsys.searches.training.memories import Floats, Piece
from simsys.searches.training.pieces import Pieces, Seconds, work_key
from simsys.searches.training.sharded import Sharded, sharded_passes, shards_weights
from simsys.sums import ordered_sum

Stage = Sequence[Piece]
ALTERNATING = ("1f1b", "one_f_one_b", "interleaved", "interleaved_1f1b")
"""Schedules in which forward and backward passes alternate after the first passes of a stage."""


class Times:
    """Bounds of variants with one division and schedule.

    Args:
        base: The training.
        pieces: The pieces of the model.
        groups: The groups of a rank of every stage.
        stages: The chunks of each stage.
        schedule: The schedule.
    """

    def __init__(self, base: Base, pieces: Pieces, groups: Groups, stages: Sequence[Stage], schedule: str) -> None:
        self._base, self._pieces, self._groups, self._stages = base, pieces, groups, stages
        distinct = {piece.signature: piece for stage in stages for piece in stage}
        places = {signature: place for place, signature in enumerate(distinct)}
        self._distinct = list(distinct.values())
        self._places = np.array([[places[piece.signature] for piece in stage] for stage in stages])
        self._alternates = schedule in ALTERNATING

    def bound_s(self, kind: TrainingSetup, variants: Sequence[TrainingSetup], steps: Sequence[int]) -> Floats:
        """Lower bounds (s) of variants with one kind of data parallelism.

        Args:
            kind: A training with this kind.
            variants: Trainings with the sizes of micro-batches and kinds of recomputation; of any kind.
            steps: Micro-batches of each.
        """
        exchange, count = self._exchanges(kind), np.array(steps, dtype=float)
        if shards_weights(kind):
            found = [[self._sharded(kind, each, piece) for piece in self._distinct] for each in variants]
            if all(each is not None for each in found[0]):
                return self._of_sharded(found, count, exchange)  # type: ignore[arg-type]  # all or none are known
        passes = np.array([[self._plain(each, piece) for piece in self._distinct] for each in variants])
        tails_s = np.zeros((len(variants), *self._places.shape))
        return self._period_s(passes[:, self._places], tails_s, tails_s[:, :, 0], count, exchange)

    def computed_s(self, kind: TrainingSetup, variants: Sequence[TrainingSetup], steps: Sequence[int]) -> Floats:
        """Lower bounds of the time that a GPU computes in an iteration (s), the mean of all stages; as `bound_s`."""
        passes_s = np.array([[self._pieces.computed_s(piece, each) for piece in self._distinct] for each in variants])
        update_s = np.array([self._update_s(kind, pieces) for pieces in self._stages])
        work_s = passes_s[:, self._places].sum(axis=2) * np.array(steps, dtype=float)[:, None]
        return np.asarray((work_s + update_s).mean(axis=1))

    def _of_sharded(
        self, found: Sequence[Sequence[Sharded]], count: Floats, exchange: Sequence[LeastExchange]
    ) -> Floats:
        passes = np.array([[each.passes for each in row] for row in found])[:, self._places]
        tails_s = np.array([[each.tail_s for each in row] for row in found])[:, self._places]
        ends_s = np.array([[each.end_s for each in row] for row in found])[:, self._places[:, 0]]
        hidden_s = np.array([[each.exchange_s for each in row] for row in found])[:, self._places].sum(axis=2)
        period_s = self._period_s(passes, tails_s, ends_s, count, exchange)
        return np.asarray(np.maximum(period_s, (hidden_s * count[:, None]).max(axis=1)))

    def _sharded(self, kind: TrainingSetup, variant: TrainingSetup, piece: Piece) -> Sharded | None:
        key = piece.signature, work_key(variant), kind.shards.weights, self._groups.whole_key
        found = self._pieces.sharded.get(key)
        if found is None and key not in self._pieces.sharded:
            found = sharded_passes(kind, self._blocks(variant, [piece]), self._groups, self._pieces)
            self._pieces.sharded[key] = found
        return found

    def _plain(self, variant: TrainingSetup, piece: Piece) -> Seconds:
        return self._pieces.pass_seconds(piece, variant, self._groups)

    # ---- model states

    def _exchanges(self, setup: TrainingSetup) -> list[LeastExchange]:
        """For each stage, the least communication of model states, and the weight update."""
        found: dict[tuple[object, ...], LeastExchange] = {}
        for pieces in self._stages:
            key = tuple(piece.signature for piece in pieces)
            if key not in found:
                exchange = least_exchange(setup, self._blocks(setup, pieces), self._groups, self._pieces)
                found[key] = exchange._replace(update_s=self._update_s(setup, pieces))
        return [found[tuple(piece.signature for piece in pieces)] for pieces in self._stages]

    def _blocks(self, setup: TrainingSetup, pieces: Stage) -> list[tuple[Block, int]]:
        return [
            (block, stretch.repeat)
            for piece in pieces
            for stretch in piece.chunk.stretches
            for block in self._pieces.blocks(stretch, setup)
        ]

    def _update_s(self, setup: TrainingSetup, pieces: Stage) -> float:
        """Least time of the weight update of a stage on the GPU; 0 if it runs on the host."""
        if setup.shards.on_host:
            return 0.0
        experts = ordered_sum(piece.chunk.expert_parameters for piece in pieces)
        rest = ordered_sum(piece.chunk.parameters for piece in pieces) - experts - setup.tied_parameters
        updated = rest / setup.shards.optimizer + experts / setup.expert_shards.optimizer
        settings, half = setup.settings, self._base.precision.weight_bytes < 4
        work = update_work(settings.optimizer, updated, fused=settings.fused_optimizer, half_copy=half)
        return self._pieces.work_s(work)

    # ---- the iteration

    def _period_s(
        self, passes: Floats, tails_s: Floats, ends_s: Floats, steps: Floats, exchange: Sequence[LeastExchange]
    ) -> Floats:
        """Lower bounds of the time of an iteration, at whose ends all stages meet.

        A stage waits for the first micro-batch. It computes all its passes and its update, and waits for the
        communication that its last passes do not hide. Where a forward pass follows a backward pass, it waits for the
        gradients of that. The last backward pass of a stage goes back through the stages before it, until the first
        one can update.

        Args:
            passes: Times by variant, stage, chunk and kind of pass (forward, backward, weight).
            tails_s: By variant, stage and chunk, for how long no weights can be gathered after a backward pass.
            ends_s: By variant and stage, the time from then until all gradients are reduced, after the last one.
            steps: Micro-batches of each variant.
            exchange: Communication of model states of each stage.
        """
        forward, backward, weight = passes[..., 0], passes[..., 1], passes[..., 2]
        chunks, stages = forward.shape[2], forward.shape[1]
        each_s, slows_s, last_s, after_s, update_s = np.array(exchange).T
        waits_s = tails_s.min(axis=2) * self._waits(steps, stages, chunks)
        waits_s = waits_s + slows_s * np.maximum(steps - stages, 0.0)[:, None]
        work = (forward + backward + weight).sum(axis=2) * steps[:, None] + waits_s
        last = (backward + weight).sum(axis=2) * (1.0 if chunks == 1 else steps[:, None])
        own = np.maximum(work + np.maximum(last_s - last, 0.0), each_s * steps[:, None])
        own = own + tails_s[:, :, 0] + ends_s + update_s + after_s
        start = np.zeros((len(steps), 1))
        fill = np.concatenate([start, np.cumsum(forward[:, :-1, 0], axis=1)], axis=1)
        drain = np.concatenate([start, np.cumsum(backward[:, :-1].min(axis=2), axis=1)], axis=1)
        chain = fill + (forward + backward).sum(axis=2) * steps[:, None] + waits_s + drain
        end_s = tails_s[:, 0, 0] + ends_s[:, 0] + update_s[0] + after_s[0]
        return np.asarray(np.maximum((own + fill).max(axis=1), chain.max(axis=1) + end_s))

    def _waits(self, steps: Floats, stages: int, chunks: int) -> NDArray[np.float64]:
        """How often at least a forward pass follows a backward pass, by variant and stage."""
        if not self._alternates or any(piece.chunk.num_blocks < 2 for piece in self._distinct):
            return np.zeros((len(steps), stages))
        before = np.array([stages - stage for stage in range(stages)], dtype=float)
        if chunks > 1:
            before = 2.0 * before - 1.0 + (chunks - 1) * stages
        return np.asarray(np.maximum(steps[:, None] * chunks - before, 0.0))
