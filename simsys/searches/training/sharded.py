"""Passes with sharded weights (FSDP, HSDP): all-gathers and reduce-scatters beside the computation of blocks.

The recurrences follow `frameworks/fsdp.py` on idle links. All collectives of a group run in order, so the weights of
the next block and the gradients of the previous one travel while a block computes; the first block of a pass waits for
its weights. A computation is slowed by the collectives beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from simsys.build.training_setup import TrainingSetup
from simsys.collectives.base import CollectiveKind
from simsys.parallel.plan import Block
from simsys.searches.training.exposed import begins_alone
from simsys.searches.training.groups import Groups
from simsys.searches.training.pieces import Pieces, Seconds

GATHER, SCATTER, REDUCE = CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_REDUCE
NAMES = ("FSDP", "HSDP")
Blocks = Sequence[tuple[Block, int]]
"""Blocks of a chunk in order, each with the number of equal ones in a row."""


class Sharded(NamedTuple):
    """Least times of the passes of a micro-batch through a chunk.

    Args:
        passes: Times of the passes.
        tail_s: Time from the end of a backward pass until weights can be gathered again.
        end_s: Time from then until all gradients are reduced.
        exchange_s: Time of all collectives of the group that divides the weights.
    """

    passes: Seconds
    tail_s: float
    end_s: float
    exchange_s: float


class Exchange(NamedTuple):
    """The collectives of the weights and gradients of a block.

    Args:
        gather_s: Time to gather its weights.
        scatter_s: Time to reduce its gradients to shards.
        reduce_s: Time to reduce the shards over replicas.
        gather_slows_s: How long gathering its weights delays a computation beside it.
        scatter_slows_s: How long reducing its gradients does.
    """

    gather_s: float
    scatter_s: float
    reduce_s: float
    gather_slows_s: float
    scatter_slows_s: float


class Unit(NamedTuple):
    """A block with its collectives.

    Args:
        times: Computation and communication of its passes.
        exchange: The collectives of its weights and gradients.
        forward_slows: Whether its forward pass can be delayed: it begins with a computation without a collective.
        backward_slows: Whether its backward pass begins so.
    """

    times: Seconds
    exchange: Exchange
    forward_slows: bool
    backward_slows: bool


def shards_weights(setup: TrainingSetup) -> bool:
    """Whether the weights are sharded by a module with the options that the recurrences assume."""
    named = any(part in NAMES for part in setup.config.parallelism.parts)
    plain = not setup.settings.options and setup.settings.data_parallel is None
    return named and plain and setup.layout.replicas > 1 and setup.shards.weights > 1


def sharded_passes(setup: TrainingSetup, blocks: Blocks, groups: Groups, pieces: Pieces) -> Sharded | None:
    """The passes of a micro-batch through a chunk; None if several groups divide its weights."""
    if len({block.over for block, _ in blocks}) != 1:
        return None
    units = [(_unit(setup, block, groups, pieces), repeat) for block, repeat in _thinned(blocks)]
    splits = setup.schedule.splits_backward
    forward_s = units[0][0].exchange.gather_s
    for place, (unit, repeat) in enumerate(units):
        following = units[place + 1][0] if place + 1 < len(units) else None
        forward_s += repeat * _step_s(unit.times.forward, following, None, slows=unit.forward_slows)
    backward_s = weight_s = exchange_s = scatter_s = 0.0
    for place, (unit, repeat) in enumerate(units):
        before = units[place + 1][0] if place + 1 < len(units) and not splits else None
        following = units[place - 1][0] if place else None
        backward_s += repeat * _step_s(unit.times.backward, following, before, slows=unit.backward_slows)
        weight_s += repeat * unit.times.weight
        scatter_s += repeat * unit.exchange.scatter_s
        exchange_s += repeat * (2.0 * unit.exchange.gather_s + unit.exchange.scatter_s)
    if splits:  # the next pass gathers weights after the gradients
        weight_s = max(weight_s, scatter_s)
    first, last = units[0][0].exchange, units[-1][0].exchange
    passes = Seconds(forward_s, backward_s, weight_s)
    return Sharded(passes, first.scatter_s, first.reduce_s, exchange_s - last.gather_s)


def _step_s(compute_s: float, gathered: Unit | None, reduced: Unit | None, *, slows: bool) -> float:
    """A block computes, while the weights of one unit are gathered and the gradients of another one are reduced."""
    overlapped_s = slowed_s = 0.0
    if gathered is not None:
        overlapped_s, slowed_s = gathered.exchange.gather_s, gathered.exchange.gather_slows_s
    if reduced is not None:
        overlapped_s += reduced.exchange.scatter_s if gathered is not None else 0.0
        slowed_s += reduced.exchange.scatter_slows_s
    return max(compute_s + (slowed_s if slows else 0.0), overlapped_s)


def _thinned(blocks: Blocks) -> list[tuple[Block, int]]:
    """The blocks, the first and the last of equal ones apart, since these have other neighbours."""
    found: list[tuple[Block, int]] = []
    for block, repeat in blocks:
        found += [(block, 1), (block, repeat - 2), (block, 1)] if repeat > 2 else [(block, 1)] * repeat
    return found


def _unit(setup: TrainingSetup, block: Block, groups: Groups, pieces: Pieces) -> Unit:
    """The collectives of a block, found once for its amounts of bytes."""
    key = block.over, block.whole_bytes, block.gradient_bytes, setup.shards.weights, groups.whole_key
    found = pieces.exchanges.get(key)
    if found is None:
        found = pieces.exchanges[key] = _exchanges(setup, block, groups, pieces)
    alone = begins_alone(block.forward), begins_alone(block.backward)
    return Unit(pieces.seconds(block, groups), found, *alone)


def _exchanges(setup: TrainingSetup, block: Block, groups: Groups, pieces: Pieces) -> Exchange:
    pairs = groups.split(block.over, setup.shards.weights)
    sharers, replicas = [one for one, _ in pairs], [other for _, other in pairs]
    shard_bytes = block.gradient_bytes / setup.shards.weights
    gather, scatter = (GATHER, block.whole_bytes), (SCATTER, block.gradient_bytes)
    return Exchange(
        pieces.least_s(sharers, *gather),
        pieces.least_s(sharers, *scatter),
        pieces.least_s(replicas, REDUCE, shard_bytes),
        pieces.slow_down_s(sharers, *gather),
        pieces.slow_down_s(sharers, *scatter) + pieces.slow_down_s(replicas, REDUCE, shard_bytes),
    )
