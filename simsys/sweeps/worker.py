"""A worker process of a sweep: receives shards, sends rows back as they are finished."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from simsys.sweeps.evaluate import Row, row_of
from simsys.sweeps.shards import estimate_s
from simsys.sweeps.statistics import mean
from simsys.user_modules import UserModules, looked_for
from simsys.workers import begin_work

IDLE = -1.0
"""Position of a worker that simulates no point."""
FLUSH_S = 0.2
"""Longest time for which finished rows wait to be sent."""
_OOM_SCORE = 500
"""Makes Linux end a worker before other processes when memory runs out."""


class Task(NamedTuple):
    """A point for a worker: its position, its key, and its settings that differ from the scenario, by path."""

    position: int
    key: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Setting:
    """What all points have in common.

    Args:
        base: The settings of the scenario.
        folder: The folder from which relative paths start.
        modules: Where modules of the user are found.
    """

    base: Mapping[str, Any]
    folder: Path
    modules: UserModules


def mean_estimate_s(setting: Setting, tasks: Sequence[Task]) -> float:
    """Mean estimated processor time of points (s); at least one."""
    return mean([estimate_s(setting.base, task.values, setting.folder) for task in tasks])


def work(connection: Connection, setting: Setting, sample: Sequence[Task], now: Any) -> None:
    """Send the mean estimate of some points, then simulate shards until None is received.

    Args:
        connection: Receives shards, and sends rows.
        setting: What all points have in common.
        sample: The points whose work is estimated; if there are none, the estimate is None.
        now: Shared memory of two floats: the position of the current point, and when it began (monotonic clock, s).
    """
    begin_work()
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE), encoding="ascii")
    with looked_for(setting.modules):
        connection.send(mean_estimate_s(setting, sample) if sample else None)
        while (shard := connection.recv()) is not None:
            rows, sent_s = list[Row](), time.monotonic()
            for task in shard:
                now[1] = time.monotonic()
                now[0] = task.position
                rows.append(row_of(task.key, setting.base, task.values, setting.folder))
                if time.monotonic() > sent_s + FLUSH_S:
                    connection.send(rows)
                    rows, sent_s = [], time.monotonic()
            now[0] = IDLE
            connection.send(rows)
