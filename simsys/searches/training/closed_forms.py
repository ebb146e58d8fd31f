"""Stage 1 of a search: the memory of all variants of a division, and a lower bound of their iteration time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from simsys.build.training_setup import TrainingSetup
from simsys.errors import SimsysError, UsageError
from simsys.framework import FRAMEWORKS
from simsys.parallel.activations import RecomputeSetting
from simsys.parallel.pipeline_schedule import Schedule
from simsys.parallel.training_memory import model_states, whole_bytes
from simsys.searches.training.base import Base
from simsys.searches.training.groups import Groups
from simsys.searches.training.memories import GatheredBytes, Piece
from simsys.searches.training.pieces import Pieces, in_flight
from simsys.searches.training.space import PLAIN, Axes, Division, Variant
from simsys.searches.training.times import Times

Floats = NDArray[np.float64]
MEMORY = "does not fit into the memory of a GPU"
NOTHING_AGAIN: RecomputeSetting = "none"
BATCH = "micro-batches and data-parallel ranks do not divide the global batch"


@dataclass(frozen=True)
class Fitting:
    """A layout that fits.

    Args:
        division: The division of the ranks.
        variant: What differs from others of this division.
        memory_share: Memory that the fullest GPU needs, over its memory.
        bound_s: A lower bound of the time of an iteration (s).
        computed_s: A lower bound of the time that a GPU computes in it, the mean of all; 0 if it is not needed (s).
        exact: Whether the bounds are its own, not those of the same layout without recomputation.
    """

    division: Division
    variant: Variant
    memory_share: float
    bound_s: float
    computed_s: float = 0.0
    exact: bool = True


class ClosedForms:
    """Memory and bounds of the layouts of a training.

    Args:
        base: The training.
        axes: The space.
        computed: Whether bounds of the time that GPUs compute are needed.
    """

    def __init__(self, base: Base, axes: Axes, *, computed: bool = False) -> None:
        self.base, self.axes, self.computed = base, axes, computed
        self.pieces = Pieces(base)
        self.reasons: Counter[str] = Counter()
        """Number of layouts without an answer, by reason."""
        self._groups: dict[Division, Groups] = {}

    def groups(self, division: Division) -> Groups:
        """The groups of a rank of every stage."""
        found = self._groups.get(division)
        if found is None:
            alike = self.base.stages_lie_alike(division)
            found = self._groups[division] = Groups(self.base.layout(division), self.pieces.number, alike=alike)
        return found

    def candidates(self, division: Division) -> list[Fitting]:
        """The layouts of a division that fit; the others are counted by reason."""
        base, axes = self.base, self.axes
        orders, kinds = axes.orders(division.pipeline), axes.kinds_of(division)
        each, sizes = len(axes.recompute) * len(kinds), sorted(axes.samples)
        sizes = [size for size in sizes if base.samples % (size * division.data) == 0]
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

    def tightened(self, fitting: Fitting) -> Fitting:
        """A layout that fits with bounds of its own, if these are higher."""
        variant = fitting.variant
        order = _Order(self, fitting.division, variant.schedule, variant.virtual, [variant.samples], [variant.kind])
        wanted = np.array([[each == variant.recompute for each in self.axes.recompute]])
        bound_s, computed_s = (float(each[0][wanted][0]) for each in order.bounds_s(wanted))
        bound_s, computed_s = max(bound_s, fitting.bound_s), max(computed_s, fitting.computed_s)
        return replace(fitting, bound_s=bound_s, computed_s=computed_s, exact=True)

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
        self._setups: dict[tuple[int, RecomputeSetting, str], TrainingSetup] = {}
        self.by_kind = [self._setup(kind=kind) for kind in kinds]
        self.stages = self.pieces.stages(self.by_kind[0], division, virtual)
        self.module: type[Schedule] = FRAMEWORKS.get(schedule if division.pipeline > 1 else PLAIN, Schedule)
        self.allowed = [self._allows(steps) for steps in self.steps]
        distinct = {piece.signature: piece for stage in self.stages for piece in stage}
        numbers = {signature: number for number, signature in enumerate(distinct)}
        self.distinct = list(distinct.values())
        """The chunks that differ, of all stages."""
        self.places = np.array([[numbers[piece.signature] for piece in stage] for stage in self.stages])
        """For each stage and chunk, which of them it is."""
        alike: dict[tuple[int, ...], list[int]] = {}
        for stage, pieces in enumerate(self.places.tolist()):
            alike.setdefault(tuple(pieces), []).append(stage)
        self.alike = list(alike.values())
        """Stages with equal chunks."""
        self._in_flight: dict[int, Floats] = {}

    def _setup(self, kind: str = "", size: int = 0, recompute: RecomputeSetting = "") -> TrainingSetup:
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
        exact, sources = self._sources(fits.any(axis=0))
        bound_s, computed_s = self.bounds_s(exact)
        recomputes, found = self.forms.axes.recompute, []
        for kind, size, recompute in zip(*(axis.tolist() for axis in np.nonzero(fits)), strict=True):
            variant = Variant(self.schedule, self.virtual, self.sizes[size], recomputes[recompute], self.kinds[kind])
            share, source = float(memory[kind, size, recompute]) / capacity, int(sources[size, recompute])
            least_s = float(bound_s[kind, size, source]), float(computed_s[kind, size, source])
            found.append(Fitting(self.division, variant, share, *least_s, exact=source == recompute))
        return found

    def _sources(self, fits: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.int_]]:
        """Which variants need bounds of their own, and whose bounds each one has, by size and recomputation.

        Where a layout fits without recomputation, its bounds hold for all kinds of recomputation, which add work.
        """
        exact, sources = fits.copy(), np.tile(np.arange(fits.shape[1]), (len(fits), 1))
        if NOTHING_AGAIN in self.forms.axes.recompute:
            without = self.forms.axes.recompute.index(NOTHING_AGAIN)
            sizes = fits[:, without]  # those that fit without recomputation
            exact[sizes], sources[sizes] = False, without
            exact[sizes, without] = True
        return exact, sources

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
        states = [self._state_bytes(setup, self.stages[stages[0]]) for stages in self.alike]
        if max(states) > capacity:
            return np.full_like(fullest, np.inf)
        kept, passing, gathered = self._passes(setup, capacity - min(states))
        for held, stages in zip(states, self.alike, strict=True):
            pieces = self.places[stages[0]]
            flying = self._flying(stages)  # stages, chunks, sizes
            staying = (flying > 0) * gathered[pieces][:, None]
            others = staying.sum(axis=1, keepdims=True) - staying
            busiest = (passing[pieces] + others[..., None]).max(axis=1)  # stages, sizes, recomputations
            changing = (busiest + np.einsum("scm,cmr->smr", flying, kept[pieces])).max(axis=0)
            lost = np.ceil(changing * (1.0 / self.base.engine.gpu_memory_utilization - 1.0))
            fullest = np.maximum(fullest, held + changing + lost)
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

    def _passes(self, setup: TrainingSetup, free_bytes: float) -> tuple[Floats, Floats, Floats]:
        """Memory of a micro-batch by piece, size and recomputation: kept, and further bytes at the peak of a pass.

        The third array has the gathered weights between the passes by piece. Where a single micro-batch needs more
        than `free_bytes`, larger ones are not looked at: they need infinitely many.
        """
        weight, gradient = whole_bytes(setup.shards, self.base.precision)
        if setup.shards.weights == 1 and setup.buffer_bytes([piece.chunk for piece in self.stages[0]]):
            weight = gradient = 0.0
        gathered = GatheredBytes(weight, gradient, setup.shards.gathered if weight or gradient else "none")
        recomputes = self.forms.axes.recompute
        kept = np.zeros((len(self.distinct), len(self.sizes), len(recomputes)))
        passing, staying = np.full_like(kept, np.inf), np.zeros(len(self.distinct))
        for column, size in enumerate(self.sizes):
            sized = self._setup(size=size)
            for row, piece in enumerate(self.distinct):
                found = self.pieces.memories.of(piece, sized, recomputes, gathered)
                kept[row, column], passing[row, column], staying[row] = found
            if (kept[:, column] + passing[:, column]).min(axis=1).max() > free_bytes:
                break
        return kept, passing, staying

    def _flying(self, stages: Sequence[int]) -> Floats:
        """Micro-batches in flight by stage, chunk and size."""
        found = self._in_flight.get(stages[0])
        if found is None:
            count = self.division.pipeline
            found = self._in_flight[stages[0]] = np.zeros((len(stages), self.virtual, len(self.sizes)))
            for row, stage in enumerate(stages):
                for column, (steps, allowed) in enumerate(zip(self.steps, self.allowed, strict=True)):
                    if allowed:
                        found[row, :, column] = in_flight(self.module, stage, count, steps, self.virtual)
        return found

    # ---- time

    def bounds_s(self, wanted: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Lower bounds of the time and of the computation of an iteration, for the wanted variants.

        Both are by kind, size and recomputation; the second is 0 if it is not needed.
        """
        times = Times(self.base, self.pieces, self.forms.groups(self.division), self.stages, self.schedule)
        sizes, recomputes = np.nonzero(wanted)
        variants = [
            self._setup(size=self.sizes[size], recompute=self.forms.axes.recompute[recompute])
            for size, recompute in zip(sizes.tolist(), recomputes.tolist(), strict=True)
        ]
        steps = [self.steps[size] for size in sizes]
        bound = np.full((len(self.kinds), *wanted.shape), np.inf)
        computed = np.zeros_like(bound)
        for index, setup in enumerate(self.by_kind):
            bound[index, sizes, recomputes] = times.bound_s(setup, variants, steps)
            if self.forms.computed:
                computed[index, sizes, recomputes] = times.computed_s(setup, variants, steps)
        return bound, computed


def _kind_of(message: str) -> str:
    """A message without the number of micro-batches, so that equal reasons count together."""
    return message.rpartition(", not ")[0] or message
