"""The least communication of model states in an iteration: lower bounds for the shipped kinds of data parallelism."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from simsys.build.training_setup import TrainingSetup
from simsys.collectives.base import CollectiveKind
from simsys.parallel.plan import Block, Part
from simsys.searches.training.groups import Groups
from simsys.searches.training.pieces import Pieces
from simsys.sums import ordered_sum

GATHER, SCATTER, REDUCE = CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_REDUCE
Blocks = Sequence[tuple[Block, int]]
"""Blocks of a stage, each with the number of equal ones."""


class LeastExchange(NamedTuple):
    """Least times of the communication of model states of a stage.

    Args:
        each_s: In every micro-batch, along one group, overlapped with computation or not.
        slows_s: By how much it delays computations in every micro-batch that others follow.
        last_s: After the beginning of the last backward pass.
        after_s: After the weight update.
        update_s: The weight update itself.
    """

    each_s: float = 0.0
    slows_s: float = 0.0
    last_s: float = 0.0
    after_s: float = 0.0
    update_s: float = 0.0


def least_exchange(setup: TrainingSetup, blocks: Blocks, groups: Groups, pieces: Pieces) -> LeastExchange:
    """The least communication of a stage; nothing for modules or options that are not known here."""
    _, options = setup.data_parallel
    kind = next((part for part in setup.config.parallelism.parts if part in _KINDS), "")
    if setup.layout.replicas == 1 or setup.settings.options or setup.settings.data_parallel is not None:
        return LeastExchange()
    return _KINDS[kind](setup, blocks, groups, pieces, options) if kind else LeastExchange()


def _bytes_by_group(blocks: Blocks) -> dict[str, tuple[float, float]]:
    """Bytes of gradients and of weights by the kind of group that shares them."""
    found: dict[str, tuple[float, float]] = {}
    for block, repeat in blocks:
        gradients, weights = found.get(block.over, (0.0, 0.0))
        found[block.over] = gradients + repeat * block.gradient_bytes, weights + repeat * block.parameter_bytes
    return found


def _buckets_s(
    kind: CollectiveKind, nbytes: float, over: str, groups: Groups, pieces: Pieces, options: object
) -> float:
    """Time of the full buckets of these gradients."""
    first, size = float(getattr(options, "first_bucket_size", 0)), float(getattr(options, "bucket_size", 0))
    count = max(0, int((nbytes - first) // size) - 1) if size else 0
    return count * pieces.collective_s(groups, over, kind, size) if count else 0.0


def _replicated(
    setup: TrainingSetup, blocks: Blocks, groups: Groups, pieces: Pieces, options: object
) -> LeastExchange:
    found = _bytes_by_group(blocks).items()
    return LeastExchange(
        last_s=max(_buckets_s(REDUCE, each[0], over, groups, pieces, options) for over, each in found)
    )


def _zero1(setup: TrainingSetup, blocks: Blocks, groups: Groups, pieces: Pieces, options: object) -> LeastExchange:
    found = _bytes_by_group(blocks).items()
    return LeastExchange(
        last_s=max(_buckets_s(SCATTER, each[0], over, groups, pieces, options) for over, each in found),
        after_s=max(pieces.collective_s(groups, over, GATHER, each[1]) for over, each in found),
    )


def _zero2(setup: TrainingSetup, blocks: Blocks, groups: Groups, pieces: Pieces, options: object) -> LeastExchange:
    """All gradients are sent in every micro-batch, none of them in more than a bucket at once."""
    once = _zero1(setup, blocks, groups, pieces, options)
    size = float(getattr(options, "bucket_size", 0))
    found = _bytes_by_group(blocks).items()
    each = [each[0] / size * pieces.collective_s(groups, over, SCATTER, size) for over, each in found if size]
    slows_s = 0.0
    if size and all(begins_alone(block.forward) and begins_alone(block.backward) for block, _ in blocks):
        along = [(each[0] / size, groups.along(over)) for over, each in found]
        slows_s = ordered_sum(count * pieces.slow_down_s(group, SCATTER, size) for count, group in along)
    return LeastExchange(each_s=max(each, default=0.0), slows_s=slows_s, after_s=once.after_s)


def begins_alone(parts: Sequence[Part]) -> bool:
    """Whether a pass begins with a computation without a collective, which others can delay."""
    first = next((part for part in parts if part.computes), None)
    return first is not None and not first.overlapped


def _sharded(setup: TrainingSetup, blocks: Blocks, groups: Groups, pieces: Pieces, options: object) -> LeastExchange:
    """Weights are gathered in both passes, except those of the last block, and gradients are scattered."""
    if setup.shards.weights < setup.layout.replicas or setup.schedule.splits_backward:
        return LeastExchange()
    total: dict[str, float] = {}
    for block, repeat in blocks:
        gather_s = pieces.collective_s(groups, block.over, GATHER, block.whole_bytes)
        scatter_s = pieces.collective_s(groups, block.over, SCATTER, block.gradient_bytes)
        total[block.over] = total.get(block.over, 0.0) + repeat * (gather_s + scatter_s)
    return LeastExchange(each_s=max(total.values()))


_KINDS = {"DDP": _replicated, "ZERO1": _zero1, "ZERO2": _zero2, "FSDP": _sharded}
