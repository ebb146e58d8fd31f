"""Which of the waiting jobs starts next, if one can."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Waiting:
    """A waiting job.

    Args:
        index: Its place in the experiment file.
        gpus: Number of GPUs.
        arrival_s: Time of arrival.
        priority: Higher numbers are first, if the queue uses priorities.
        walltime_s: Expected duration.
    """

    index: int
    gpus: int
    arrival_s: float
    priority: int = 0
    walltime_s: float = 0.0


@dataclass(frozen=True)
class Running:
    """A job that runs: how many GPUs it gives back, and when that is expected."""

    gpus: int
    end_s: float


Queue = Callable[[Sequence[Waiting], int, Sequence[Running], float], Waiting | None]
"""Says which of the jobs that wait, in order of arrival, is to start, given the free GPUs, those running, and now."""


def fifo(waiting: Sequence[Waiting], free: int, running: Sequence[Running], now_s: float) -> Waiting | None:
    """First come, first served, without overtaking."""
    return waiting[0] if waiting and waiting[0].gpus <= free else None


def priority(waiting: Sequence[Waiting], free: int, running: Sequence[Running], now_s: float) -> Waiting | None:
    """The highest priority first, then first come, first served; without overtaking or interruption."""
    first = max(waiting, key=lambda job: job.priority, default=None)
    return first if first is not None and first.gpus <= free else None


def backfill(waiting: Sequence[Waiting], free: int, running: Sequence[Running], now_s: float) -> Waiting | None:
    """First come, first served; later jobs overtake if the first is not expected to be delayed.

    EASY backfilling (Lifka 1995; Mu'alem & Feitelson 2001, §2): the first job gets a reservation for the time when
    enough GPUs will be free. A later job starts if it will end by then, or needs no more GPUs than remain.
    """
    if not waiting or (first := waiting[0]).gpus <= free:
        return waiting[0] if waiting else None
    free_then, start_s = free, now_s
    for ending in sorted(running, key=lambda each: each.end_s):
        free_then, start_s = free_then + ending.gpus, max(now_s, ending.end_s)
        if free_then >= first.gpus:
            break
    left_over = free_then - first.gpus
    for job in waiting[1:]:
        if job.gpus <= free and (now_s + job.walltime_s <= start_s or job.gpus <= left_over):
            return job
    return None


QUEUES: Mapping[str, Queue] = {"fifo": fifo, "backfill": backfill, "priority": priority}
"""Queues, named as in an experiment file."""
