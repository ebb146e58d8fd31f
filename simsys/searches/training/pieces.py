"""The model in pieces: a rank's share by division, its pipeline stages, and the memory and work of equal pieces once.

Many layouts have equal pieces: the layers of a stage depend on the degrees, but not on the kind of data parallelism,
and one layer costs the same in every stage. Everything here is found once.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from simsys.build.training_setup import TrainingSetup, expert_load
from simsys.collectives.base import CollectiveKind
from simsys.collectives.choose import named
from simsys.costs.compute_speed import WorkCost
from simsys.executors.communicator import Communicator
from simsys.model.work import Work
from simsys.parallel.layout import Group
from simsys.parallel.passes import ForwardPass, RepeatedBlock
from simsys.parallel.pipeline_schedule import Schedule, peak_in_flight
from simsys.parallel.plan import Block, Part
from simsys.parallel.stages import partition
from simsys.parallel.training import training_plan
from simsys.platform.environment import Environment
from simsys.searches.training.base import Base
from simsys.searches.training.groups import Groups
from simsys.searches.training.memories import Memories, Piece, Signature
from simsys.searches.training.space import Division
from simsys.sums import ordered_sum

Whole: TypeAlias = tuple[int, bool, int, int]
"""What a rank's share of the whole model depends on: degrees of tensor, context and expert parallelism."""


class Seconds(NamedTuple):
    """Least times of the passes of a micro-batch, without exposed messages."""

    forward: float
    backward: float
    weight: float


class Pieces:
    """Equal pieces of all layouts of a search.

    Args:
        base: The training.
    """

    def __init__(self, base: Base) -> None:
        self.base = base
        self.memories = Memories(base)
        """Memory of micro-batches in them."""
        self._whole: dict[Whole, ForwardPass] = {}
        self._stages: dict[tuple[Whole, int, int], list[tuple[Piece, ...]]] = {}
        self._of_pieces: dict[tuple[Hashable, ...], Seconds] = {}
        self._blocks: dict[tuple[Hashable, ...], tuple[Block, ...]] = {}
        self._seconds: dict[tuple[Block, int], Seconds] = {}
        self._computed_s: dict[tuple[Hashable, ...], float] = {}
        self.sharded: dict[tuple[Hashable, ...], Any] = {}
        """Passes with sharded weights (`sharded.py`)."""
        self.exchanges: dict[tuple[Hashable, ...], Any] = {}
        """Times of the collectives of sharded weights (`sharded.py`)."""
        cluster, engine = base.cluster, base.engine
        self._network = cluster.platform().network
        self._env = Environment()
        self._cost = WorkCost(engine.per_layer, engine.launch_per_layer or 0.0)
        self._specs = list({id(spec): spec for spec in cluster.specs}.values())
        self._choose = named(base.training.communication_pattern, cluster.tuning)
        self._even = not (cluster.links or cluster.surroundings)
        self._communicators: dict[tuple[int, ...], Communicator] = {}
        self._numbers: dict[Hashable, int] = {}

    def stages(self, setup: TrainingSetup, division: Division, virtual: int) -> list[tuple[Piece, ...]]:
        """The chunks of each pipeline stage.

        Raises:
            UsageError: If the layers cannot be divided like this.
        """
        whole_key = division.tensor, division.sequence_parallel, division.context, division.expert
        key = whole_key, division.pipeline, virtual
        found = self._stages.get(key)
        if found is None:
            whole = self._whole.get(whole_key)
            if whole is None:
                whole = self._whole[whole_key] = setup.forward_pass(expert_load(self.base.config.parallelism))
            layers = self.base.stage_layers(division, virtual)
            cut = [[whole]] if division.pipeline == 1 else partition(whole, division.pipeline, virtual, layers)
            found = self._stages[key] = [tuple(Piece(chunk, _signature(chunk)) for chunk in stage) for stage in cut]
        return found

    def blocks(self, stretch: RepeatedBlock, setup: TrainingSetup) -> tuple[Block, ...]:
        """One block of a stretch in a training step, or its two halves if its experts are divided."""
        key = (id(stretch.segments), *work_key(setup))
        found = self._blocks.get(key)
        if found is None:
            phase = setup.phases[0]
            settings = setup.step_settings(phase)
            one = ForwardPass(stretch.name, (replace(stretch, repeat=1),))
            vocab = self.base.model.vocab_size / setup.layout.tensor
            plan = training_plan([one], setup.micro_batch(phase), settings, vocab_size=vocab)
            found = self._blocks[key] = plan.blocks
        return found

    def pass_seconds(self, piece: Piece, setup: TrainingSetup, groups: Groups) -> Seconds:
        """Least times of the passes of a micro-batch through a chunk.

        Args:
            piece: The chunk.
            setup: The training with its micro-batch and recomputation.
            groups: The groups of a rank of every stage by axis.
        """
        key = piece.signature, *work_key(setup), groups.key
        found = self._of_pieces.get(key)
        if found is None:
            forward_s = backward_s = weight_s = 0.0
            for stretch in piece.chunk.stretches:
                for block in self.blocks(stretch, setup):
                    one = self.seconds(block, groups)
                    forward_s += stretch.repeat * one.forward
                    backward_s += stretch.repeat * one.backward
                    weight_s += stretch.repeat * one.weight
            found = self._of_pieces[key] = Seconds(forward_s, backward_s, weight_s)
        return found

    def computed_s(self, piece: Piece, setup: TrainingSetup) -> float:
        """Least time of the computations of a micro-batch in a chunk."""
        key = piece.signature, *work_key(setup)
        found = self._computed_s.get(key)
        if found is None:
            found = self._computed_s[key] = ordered_sum(
                stretch.repeat * self.work_s(part.work)
                for stretch in piece.chunk.stretches
                for block in self.blocks(stretch, setup)
                for part in (*block.forward, *block.backward, *block.weight)
                if part.computes
            )
        return found

    def seconds(self, block: Block, groups: Groups) -> Seconds:
        """Least times of the passes of a micro-batch through a block.

        Args:
            block: The block.
            groups: The groups of a rank of every stage by axis.
        """
        key = block, groups.key
        found = self._seconds.get(key)
        if found is None:
            sums = [
                ordered_sum([self._part_s(part, groups) for part in parts])
                for parts in (block.forward, block.backward, block.weight)
            ]
            found = self._seconds[key] = Seconds(*sums)
        return found

    def _part_s(self, part: Part, groups: Groups) -> float:
        compute_s = self.work_s(part.work) if part.computes else 0.0
        exchange_s = 0.0 if part.kind is None else self.collective_s(groups, part.over, part.kind, part.nbytes)
        return max(compute_s, exchange_s) if part.overlapped else compute_s + exchange_s

    def work_s(self, work: Work) -> float:
        """Time of a computation on the fastest GPU for it, if the host launches it in time."""
        return min(self._cost.seconds(work, spec) for spec in self._specs)

    def collective_s(self, groups: Groups, over: str, kind: CollectiveKind, nbytes: float) -> float:
        """Least time of a collective along an axis, on idle links that no other group uses."""
        return self.least_s(groups.along(over), kind, nbytes)

    def least_s(self, groups: Sequence[Group], kind: CollectiveKind, nbytes: float) -> float:
        """Least time of a collective of one of these groups, on idle links that no other group uses."""
        if not self._even:
            return 0.0
        return min(self._communicator(group).seconds(kind, nbytes) for group in groups)

    def slow_down_s(self, groups: Sequence[Group], kind: CollectiveKind, nbytes: float) -> float:
        """By how much at least a collective of one of these groups delays a computation beside it."""
        share = self.base.engine.communication_share or 0.0
        found = [self._communicator(group) for group in groups]
        if not (share and self._even) or found[0].trivial(nbytes):
            return 0.0
        return share * min(each.plan(kind, nbytes).seconds(nbytes) for each in found)

    def number(self, key: Hashable) -> int:
        """A small number that stands for a key."""
        return self._numbers.setdefault(key, len(self._numbers))

    def _communicator(self, group: Group) -> Communicator:
        found = self._communicators.get(group.ranks)
        if found is None:
            made = Communicator(group, group.size, self._network, self._choose, self._env)
            found = self._communicators[group.ranks] = made
        return found


def work_key(setup: TrainingSetup) -> tuple[Hashable, ...]:
    """What the work of a micro-batch in a layer depends on, for one division of the ranks."""
    settings = setup.settings
    many, splits = settings.gradient_accumulation_steps > 1, setup.schedule.splits_backward
    return settings.batch_size_per_gpu, settings.activation_recompute, splits, many


def _signature(chunk: ForwardPass) -> Signature:
    return tuple((id(stretch.segments), stretch.repeat) for stretch in chunk.stretches)


SETTLES = {"one_f_one_b", "interleaved", "zero_bubble"}
"""Modules of schedules that keep most micro-batches within the first two per stage."""


@lru_cache(maxsize=65536)
def in_flight(schedule: type[Schedule], stage: int, stages: int, micro_batches: int, chunks: int) -> tuple[int, ...]:
    """`peak_in_flight` of a stage, found with fewer micro-batches where further ones change nothing.

    Raises:
        UsageError: If the schedule does not allow these numbers.
    """
    package, _, module = schedule.__module__.rpartition(".")
    if package == "frameworks" and module == "gpipe":
        return (micro_batches,)
    if package == "frameworks" and module in SETTLES and micro_batches > 3 * stages:
        micro_batches = 2 * stages + micro_batches % stages
    return peak_in_flight(schedule().actions(stage, stages, micro_batches, chunks))
