"""Rules of a pipeline schedule: every pass once, in an order without deadlock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product

from simsys.errors import UsageError
from simsys.parallel.pipeline_schedule import Action, ActionKind, Schedule

SIZES = tuple(product((1, 2, 3, 4), (1, 2, 4, 8, 12), (1, 2, 3)))
"""Stages, micro-batches and chunks that a schedule is asked about; it may refuse some."""


def check_schedule(module: type[Schedule]) -> None:
    """Check the orders of all stages, for all `SIZES` that the schedule accepts.

    Raises:
        AssertionError: Which rule is broken, and how.
    """
    schedule, place = module(), module.__name__
    pipelines = 0
    for sizes in SIZES:
        orders = accepted(schedule, *sizes)
        if orders is None:
            continue
        stages, micro_batches, chunks = sizes
        pipelines += stages > 1
        where = f"{place} of {stages} stages, {micro_batches} micro-batches, {chunks} chunks"
        if [schedule.actions(stage, *sizes) for stage in range(stages)] != orders:
            raise AssertionError(f"{where}: not deterministic: two answers differ")
        for stage, order in enumerate(orders):
            check_passes(f"{where}: stage {stage}", order, wanted(schedule, micro_batches, chunks))
        check_order(where, orders, chunks, bidirectional=schedule.bidirectional)
    if not pipelines:
        raise AssertionError(f"{place}: accepts no pipeline of {SIZES}")


def accepted(schedule: Schedule, stages: int, micro_batches: int, chunks: int) -> list[list[Action]] | None:
    """The orders of all stages; None if the schedule refuses these numbers."""
    try:
        return [schedule.actions(stage, stages, micro_batches, chunks) for stage in range(stages)]
    except UsageError:
        return None
    except Exception as error:
        numbers = f"{stages} stages, {micro_batches} micro-batches, {chunks} chunks"
        message = f"{type(schedule).__name__} of {numbers}: {error!r}; refuse numbers with UsageError"
        raise AssertionError(message) from error


def wanted(schedule: Schedule, micro_batches: int, chunks: int) -> Iterator[Action]:
    """All passes through one stage, in any order."""
    kinds = [kind for kind in ActionKind if schedule.splits_backward or kind is not ActionKind.WEIGHT]
    each = micro_batches // 2
    return (
        Action(kind, number, chunk)
        for kind, number, chunk in product(kinds, range(micro_batches), range(chunks))
        if not schedule.bidirectional or (number < each) == (chunk == 0)
    )


def check_passes(where: str, order: Sequence[Action], passes: Iterator[Action]) -> None:
    """Every pass is there once."""
    found, needed = Counter(order), Counter(passes)
    for action in {**needed, **found}:
        if found[action] != needed[action]:
            raise AssertionError(f"{where} does {words(action)} {found[action]} times, not {needed[action]}")


def check_order(where: str, orders: Sequence[Sequence[Action]], chunks: int, *, bidirectional: bool = False) -> None:
    """Run the stages until all have ended; a pass starts once its inputs exist."""
    done: set[tuple[ActionKind, int, int]] = set()  # kind, micro-batch, number of the chunk in the model
    at = [0] * len(orders)
    moved = True
    while moved:
        moved = False
        for stage, order in enumerate(orders):
            while at[stage] < len(order):
                action, count = order[at[stage]], len(orders)
                opposite = bidirectional and action.chunk == 1
                here = count - 1 - stage if opposite else stage
                chunk = 0 if bidirectional else action.chunk  # directions differ by their micro-batches
                if not needs(action._replace(chunk=chunk), here, count, 1 if bidirectional else chunks) <= done:
                    break
                done.add((action.kind, action.micro_batch, chunk * count + here))
                at[stage] += 1
                moved = True
    stuck = [
        f"stage {stage} cannot begin {words(order[place])}"
        for stage, (order, place) in enumerate(zip(orders, at, strict=True))
        if place < len(order)
    ]
    if stuck:
        raise AssertionError(f"{where}: deadlock: {'; '.join(stuck)}")


def needs(action: Action, stage: int, stages: int, chunks: int) -> set[tuple[ActionKind, int, int]]:
    """What must have been done before a pass: kind, micro-batch and number of the chunk in the model."""
    kind, micro_batch, place = action.kind, action.micro_batch, action.chunk * stages + stage
    if kind is ActionKind.FORWARD:
        return {(kind, micro_batch, place - 1)} if place else set()
    if kind is ActionKind.WEIGHT:
        return {(ActionKind.BACKWARD, micro_batch, place)}
    before = {(ActionKind.FORWARD, micro_batch, place)}
    return before | ({(kind, micro_batch, place + 1)} if place + 1 < stages * chunks else set())


def words(action: Action) -> str:
    """A pass, for people."""
    return f"{action.kind} of micro-batch {action.micro_batch} in chunk {action.chunk}"
