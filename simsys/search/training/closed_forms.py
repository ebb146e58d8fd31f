"""Stage 1 of a search: the memory of all variants of a division, and a lower bound of their iteration time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from simsys.build.training_setup import TrainingSetup
from simsys.errors import SimsysError, UsageError
from simsys.framework import FRAMEWORKS
from simsys.parallel.optimizer import update_work
from simsys.parallel.pipeline_schedule import Schedule
from simsys.parallel.plan import Block
from simsys.parallel.training_memory import model_states, whole_bytes
from simsys.search.training.base import Base
from simsys.search.training.exposed import LeastExchange, least_exchange
from simsys.search.training.pieces import GatheredBytes, Groups, Piece, Pieces, in_flight
from simsys.search.training.space import PLAIN, Axes, Division, Variant
from simsys.sums import ordered_sum

Floats = NDArray[np.float64]
MEMORY = "does not fit into the memory of a GPU"
BATCH = "micro-batches and data-parallel ranks do not divide the global batch"


@dataclass(frozen=True)
class Fitting:
    """A layout that fits.

    Args:
        division: The division of the ranks.
        variant: Its variant.
        memory_share: Memory that the fullest GPU needs, over its memory.
        bound_s: A lower bound of the time of an iteration (s).
    """

    division: Division
    variant: Variant
    memory_share: float
    bound_s: float


class ClosedForms:
    """Memory and bounds of the layouts of a training.

    Args:
        base: The training.
        axes: The space.
    """

    def __init__(self, base: Base, axes: Axes) -> None:
        self.base, self.axes = base, axes
        self.pieces = Pieces(base)
        self.reasons: Counter[str] = Counter()
        """Number of layouts without an answer, by reason."""

    def candidates(self, division: Division) -> list[Fitting]:
        """The layouts of a division that fit; the others are counted by reason."""
        base, axes = self.base, self.axes
        orders, kinds = axes.orders(division.pipeline), axes.kinds_of(division)
        each = len(axes.recompute) * len(kinds)
        sizes = [size for size in sorted(axes.samples) if base.samples % (size * division.data) == 0]
        self._count(BATCH, (len(axes.samples) - len(sizes)) * each * len(orders))
        found: list[Fitting] = []
        for schedule, virtual in orders if sizes else ():
            try:
                order = _Order(self, division, schedule, virtual, sizes, kinds)
            except SimsysError as error:
                self._count(str(error), each * len(sizes))
                continue
            found += order.candidates()
        return found

    def _count(self, reason: str, layouts: int) -> None:
        if layouts:
            self.reasons[reason] += layouts


class _Order:
    """All variants of a division with one order of micro-batches.

    Arrays have the axes: kinds of data parallelism, sizes of micro-batches, kinds of recomputation.
    """

    def __init__(
        self,
        forms: ClosedForms,
        division: Division,
        schedule: str,
        virtual: int,
        sizes: Sequence[int],
        kinds: Sequence[str],
    ) -> None:
        self.forms, self.division = forms, division
        self.base, self.pieces = forms.base, forms.pieces
        self.schedule, self.virtual, self.sizes, self.kinds = schedule, virtual, sizes, kinds
        self.steps = [self.base.samples // (size * division.data) for size in sizes]
        self._setups: dict[tuple[int, str, str], TrainingSetup] = {}
        self.by_kind = [self._setup(kind=kind) for kind in kinds]
        self.stages = self.pieces.stages(self.by_kind[0], division, virtual)
        self.module: type[Schedule] = FRAMEWORKS.get(schedule if division.pipeline > 1 else PLAIN, Schedule)
        self.allowed = [self._allows(steps) for steps in self.steps]

    def _setup(self, kind: str = "", size: int = 0, recompute: str = "") -> TrainingSetup:
        chosen = (size or self.sizes[0], recompute or self.forms.axes.recompute[0], kind or self.kinds[0])
        found = self._setups.get(chosen)
        if found is None:
            made = self.base.setup(self.division, Variant(self.schedule, self.virtual, *chosen))
            found = self._setups[chosen] = made
        return found

    def _allows(self, steps: int) -> bool:
        try:
            in_flight(self.module, 0, self.division.pipeline, steps, self.virtual)
        except UsageError as error:
            each = len(self.kinds) * len(self.forms.axes.recompute)
            self.forms._count(_kind_of(str(error)), each)
            return False
        return True

    def candidates(self) -> list[Fitting]:
        """The variants that fit."""
        capacity = self.base.cluster.smallest.memory_bytes
        memory = self.memory_bytes()
        allowed = np.array(self.allowed)[None, :, None]
        fits = (memory <= capacity) & allowed
        self.forms._count(MEMORY, int(np.count_nonzero(~fits & allowed & ~np.isnan(memory))))
        if not fits.any():
            return []
        bound_s = self.bound_s(fits.any(axis=0))
        recomputes = self.forms.axes.recompute
        found = []
        for kind, size, recompute in zip(*(axis.tolist() for axis in np.nonzero(fits)), strict=True):
            variant = Variant(self.schedule, self.virtual, self.sizes[size], recomputes[recompute], self.kinds[kind])
            share = float(memory[kind, size, recompute]) / capacity
            found.append(Fitting(self.division, variant, share, float(bound_s[kind, size, recompute])))
        return found

    # ---- memory

    def memory_bytes(self) -> Floats:
        """Memory of the fullest GPU of every variant."""
        kinds, recomputes = len(self.kinds), len(self.forms.axes.recompute)
        total = np.zeros((kinds, len(self.sizes), recomputes))
        for index, setup in enumerate(self.by_kind):
            try:
                total[index] = self._memory_of(setup)
            except UsageError as error:
                total[index] = np.nan
                self.forms._count(str(error), sum(self.allowed) * recomputes)
        return total

    def _memory_of(self, setup: TrainingSetup) -> Floats:
        """Memory of the fullest GPU with one kind of data parallelism, by size and recomputation."""
        capacity = self.base.cluster.smallest.memory_bytes
        fullest: Floats = np.zeros((len(self.sizes), len(self.forms.axes.recompute)))
        alike: dict[tuple[object, ...], list[int]] = {}
        for stage, pieces in enumerate(self.stages):
            alike.setdefault(tuple(piece.signature for piece in pieces), []).append(stage)
        for stages in alike.values():
            pieces = self.stages[stages[0]]
            states = self._state_bytes(setup, pieces)
            if states > capacity:
                return np.full_like(fullest, np.inf)
            kept, passing = self._passes(setup, pieces, capacity - states)
            flying = self._flying(stages)  # stages, chunks, sizes
            changing = passing + np.einsum("scm,cmr->smr", flying, kept).max(axis=0)
            lost = np.ceil(changing * (1.0 / self.base.engine.gpu_memory_utilization - 1.0))
            fullest = np.maximum(fullest, states + changing + lost)
        return fullest

    def _state_bytes(self, setup: TrainingSetup, pieces: Sequence[Piece]) -> float:
        """Model states, buffers and context of a stage."""
        chunks = [piece.chunk for piece in pieces]
        states = model_states(
            chunks,
            self.base.precision,
            optimizer=setup.settings.optimizer,
            tied_parameters=setup.tied_parameters,
            shards=setup.shards,
            expert_shards=setup.expert_shards,
        )
        held = [nbytes for name, nbytes in states.items() if name not in setup.shards.on_host]
        return float(sum(map(ceil, [*held, setup.buffer_bytes(chunks), self.base.engine.memory_context])))

    def _passes(self, setup: TrainingSetup, pieces: Sequence[Piece], free_bytes: float) -> tuple[Floats, Floats]:
        """Kept bytes of a micro-batch by chunk, size and recomputation, and further bytes at the peak of a pass.

        Where a single micro-batch needs more than `free_bytes`, larger ones are not looked at: they need infinitely
        many.
        """
        weight, gradient = whole_bytes(setup.shards, self.base.precision)
        if setup.shards.weights == 1 and setup.buffer_bytes([piece.chunk for piece in pieces]):
            weight = gradient = 0.0
        gathered = GatheredBytes(weight, gradient, setup.shards.gathered if weight or gradient else "none")
        recomputes = self.forms.axes.recompute
        kept = np.zeros((len(pieces), len(self.sizes), len(recomputes)))
        passing = np.full((len(self.sizes), len(recomputes)), np.inf)
        for row, size in enumerate(self.sizes):
            kept[:, row], passing[row] = self.pieces.passes(pieces, self._setup(size=size), recomputes, gathered)
            if (passing[row] + kept[:, row].max(axis=0)).min() > free_bytes:
                break
        return kept, passing

    def _flying(self, stages: Sequence[int]) -> Floats:
        """Micro-batches in flight by stage, chunk and size."""
        count, flying = self.division.pipeline, np.zeros((len(stages), self.virtual, len(self.sizes)))
        for row, stage in enumerate(stages):
            for column, (steps, allowed) in enumerate(zip(self.steps, self.allowed, strict=True)):
                if allowed:
                    flying[row, :, column] = in_flight(self.module, stage, count, steps, self.virtual)
        return flying

    # ---- time

    def bound_s(self, wanted: NDArray[np.bool_]) -> Floats:
        """A lower bound of the iteration time of the wanted variants, by kind, size and recomputation."""
        layout = self.base.layout(self.division)
        groups = Groups(layout, alike=self.base.stages_lie_alike(self.division))
        exchange = [self._exchanges(setup, groups) for setup in self.by_kind]
        bound = np.full((len(self.kinds), *wanted.shape), np.inf)
        for size, recompute in zip(*(axis.tolist() for axis in np.nonzero(wanted)), strict=True):
            setup = self._setup(size=self.sizes[size], recompute=self.forms.axes.recompute[recompute])
            passes = self._pass_seconds(setup, groups)
            for kind in range(len(self.kinds)):
                bound[kind, size, recompute] = _period_s(passes, self.steps[size], exchange[kind])
        return bound

    def _exchanges(self, setup: TrainingSetup, groups: Groups) -> list[LeastExchange]:
        """For each stage, the least communication of model states, and the weight update."""
        found: dict[tuple[object, ...], LeastExchange] = {}
        for pieces in self.stages:
            key = tuple(piece.signature for piece in pieces)
            if key not in found:
                blocks = self._blocks(setup, pieces)
                exchange = least_exchange(setup, blocks, groups, self.pieces)
                found[key] = exchange._replace(update_s=self._update_s(setup, pieces))
        return [found[tuple(piece.signature for piece in pieces)] for pieces in self.stages]

    def _blocks(self, setup: TrainingSetup, pieces: Sequence[Piece]) -> list[tuple[Block, int]]:
        return [
            (block, stretch.repeat)
            for piece in pieces
            for stretch in piece.chunk.stretches
            for block in self.pieces.blocks(stretch, setup)
        ]

    def _update_s(self, setup: TrainingSetup, pieces: Sequence[Piece]) -> float:
        """Least time of the weight update of a stage on the GPU; 0 if it runs on the host."""
        if setup.shards.on_host:
            return 0.0
        experts = ordered_sum(piece.chunk.expert_parameters for piece in pieces)
        rest = ordered_sum(piece.chunk.parameters for piece in pieces) - experts - setup.tied_parameters
        updated = rest / setup.shards.optimizer + experts / setup.expert_shards.optimizer
        settings, half = setup.settings, self.base.precision.weight_bytes < 4
        work = update_work(settings.optimizer, updated, fused=settings.fused_optimizer, half_copy=half)
        return self.pieces.work_s(work)

    def _pass_seconds(self, setup: TrainingSetup, groups: Groups) -> Floats:
        """Least times of a micro-batch by stage, chunk and kind of pass (forward, backward, weight)."""
        return np.array(
            [[self.pieces.pass_seconds(piece, setup, groups) for piece in pieces] for pieces in self.stages]
        )


def _period_s(passes: Floats, steps: int, exchange: Sequence[LeastExchange]) -> float:
    """A lower bound of the time of an iteration, at whose ends all stages meet.

    A stage waits for the first micro-batch. It computes all its passes and its update, and waits for the communication
    that its last passes do not hide. And its last backward pass goes back through the stages before it, until the
    first one can update.
    """
    forward, backward, weight = passes[:, :, 0], passes[:, :, 1], passes[:, :, 2]
    work = (forward + backward + weight).sum(axis=1) * steps
    last = (backward + weight).sum(axis=1) * (1 if passes.shape[1] == 1 else steps)
    hidden = np.array([each.each_s for each in exchange]) * steps
    after = np.array([each.last_s for each in exchange]) - last
    own = np.maximum(work + np.maximum(after, 0.0), hidden)
    own += np.array([each.update_s + each.after_s for each in exchange])
    fill = np.concatenate([[0.0], np.cumsum(forward[:-1, 0])])
    own += fill
    drain = np.concatenate([[0.0], np.cumsum(backward[:-1].min(axis=1))])
    chain = fill + (forward + backward).sum(axis=1) * steps + drain
    return float(max(own.max(), chain.max() + exchange[0].update_s + exchange[0].after_s))


def _kind_of(message: str) -> str:
    """A message without the number of micro-batches, so that equal reasons count together."""
    return message.rpartition(", not ")[0] or message
