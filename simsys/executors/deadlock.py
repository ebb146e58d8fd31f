"""Deadlock report: waiting ranks, with their operations and lines of source code."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import Any

from simpy.events import Process

from simsys.errors import DeadlockError
from simsys.platform.environment import Environment


class Processes:
    """The processes of the ranks that are still under way.

    Args:
        env: Runs them.
    """

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._alive: dict[int, Process] = {}

    def start(self, rank: int, steps: Generator[Any, Any, None]) -> Process:
        """Run the process of a rank, which has no other."""
        process = self._alive[rank] = self._env.process(steps)
        return process

    def waiting(self) -> list[str]:
        """The places where processes wait, by rank; ranks that wait at one place share a line."""
        places: dict[str, list[int]] = {}
        for rank, process in sorted(self._alive.items()):
            if process.is_alive:
                places.setdefault(_place(process), []).append(rank)
        return [f"{ranks_shown(ranks)} {_waits(ranks)} at {place}" for place, ranks in places.items()]


def deadlock(operations: Iterable[str], processes: Processes) -> DeadlockError | None:
    """The error that lists waiting operations and ranks; None if there are none."""
    lines = [*operations, *processes.waiting()]
    return DeadlockError("deadlock: nothing can happen any more, but\n  " + "\n  ".join(lines)) if lines else None


def ranks_shown(ranks: Sequence[int]) -> str:
    """A few ranks, and how many there are.

    Example:
        >>> ranks_shown([3]), ranks_shown(range(12))
        ('rank 3', 'ranks 0, 1, 2, 3, 4, 5, 6, 7 … (12 in all)')
    """
    some = ", ".join(map(str, ranks[:8])) + (f" … ({len(ranks)} in all)" if len(ranks) > 8 else "")
    return f"rank {some}" if len(ranks) == 1 else f"ranks {some}"


def _waits(ranks: Sequence[int]) -> str:
    return "waits" if len(ranks) == 1 else "wait"


def _place(process: Process) -> str:
    """File, line and function of the innermost ``yield`` that a process has not come back from."""
    generator: Any = process._generator
    while isinstance(generator.gi_yieldfrom, Generator):
        generator = generator.gi_yieldfrom
    frame = generator.gi_frame
    path = Path(frame.f_code.co_filename)
    return f"{path.parent.name}/{path.name}:{frame.f_lineno} ({generator.__qualname__})"
