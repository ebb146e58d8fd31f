"""The loop over training iterations: all ranks begin one together, and identical ones need not be simulated again."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from simsys.executors.base import Executor
from simsys.framework import TrainingFramework

SAME = 1e-12
"""Largest relative difference of two durations that are taken to be the same."""


def iterate(
    executor: Executor, frameworks: Sequence[TrainingFramework], count: int, *, repeatable: bool
) -> Generator[Any, Any, None]:
    """The process of a training job.

    An iteration ends for all ranks when it has ended on each, since the loss and the norm of the gradients are
    reduced over all of them.

    Args:
        executor: Carries out the operations.
        frameworks: The training step of every rank that runs a process.
        count: Iterations.
        repeatable: Whether an iteration depends on nothing but the scenario and whether it is the first, so that
            after two equal ones all further ones are equal too; used if the level of detail allows it.
    """
    env = executor.env
    ranks = [framework.rank for framework in frameworks]
    durations: list[float] = []
    start_s = 0.0
    for iteration in range(count):
        left = count - iteration
        if repeatable and executor.may_repeat and len(durations) > 1 and _same(*durations[-2:]):
            yield executor.repeat([rank.index for rank in ranks], left, durations[-1])
            return
        for rank in ranks:
            rank.mark("iteration_start")
        yield env.all_of([env.process(framework.step()) for framework in frameworks])
        end_s = executor.align([rank.index for rank in ranks])
        for rank in ranks:
            rank.mark("iteration_end")
        durations.append(end_s - start_s)
        start_s = end_s


def _same(a_s: float, b_s: float) -> bool:
    return abs(a_s - b_s) <= SAME * b_s
