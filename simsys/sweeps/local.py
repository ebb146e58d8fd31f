"""Runs shards on worker processes of this machine; a point that crashes or hangs costs its row, and no other one."""

from __future__ import annotations

import math
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import connection as connections
from multiprocessing import get_context
from types import ModuleType, TracebackType
from typing import Any, Self, cast

from simsys.errors import SimsysError
from simsys.sweeps.evaluate import CRASHED, TIMED_OUT, Row
from simsys.sweeps.worker import IDLE, Setting, Task, work
from simsys.workers import starting_workers

ATTEMPTS = 2
"""Runs of a point whose process ends, since the cause may be another process."""
STARTS = 3
"""Processes in a row that may end before their first point."""
ESTIMATE_S = 60.0
"""Longest time for the start of a process and its estimate."""
LOOK_S = 0.25
"""Interval at which running points are compared with the time limit."""


class _Worker:
    """One worker process, and the points that it has not answered yet."""

    def __init__(self, setting: Setting, sample: Sequence[Task] = ()) -> None:
        context = get_context("spawn")
        self.now = cast(Any, context.RawArray("d", [IDLE, 0.0]))
        self.connection, other = context.Pipe()
        self.process = context.Process(target=work, args=(other, setting, sample, self.now), daemon=True)
        with starting_workers(), _nothing_of_main():
            self.process.start()
        other.close()
        self.pending: deque[Task] = deque()

    def estimate_s(self, patience_s: float) -> float | None:
        """The mean estimate of the sample; None if it does not come in time, or the process ends."""
        with suppress(EOFError, OSError):
            if self.connection.poll(patience_s):
                return cast(float | None, self.connection.recv())
        return None

    def give(self, shard: Sequence[Task]) -> None:
        """Send a shard; if the process has ended, this is noticed later."""
        self.pending = deque(shard)
        with suppress(OSError):
            self.connection.send(list(shard))

    def answers(self) -> Iterator[list[Row]]:
        """The rows that have arrived; the end of the process ends them."""
        with suppress(EOFError, OSError):
            while self.pending and self.connection.poll():
                rows = self.connection.recv()
                for _ in rows or ():
                    self.pending.popleft()
                if rows:
                    yield rows

    def overdue(self, timeout_s: float) -> bool:
        """Whether the current point has run for too long."""
        return bool(self.pending) and self.now[0] != IDLE and time.monotonic() - self.now[1] > timeout_s

    def end(self) -> None:
        """End the process at once."""
        self.process.kill()
        self.process.join()
        self.connection.close()


class LocalWorkers:
    """Worker processes of this machine; a context manager that ends them.

    Args:
        setting: What all points have in common.
        jobs: The number of processes.
        timeout_s: Longest time of a point; infinite by default.
    """

    def __init__(self, setting: Setting, jobs: int, timeout_s: float = math.inf) -> None:
        self._setting, self._jobs, self._timeout_s = setting, jobs, timeout_s
        self._workers: list[_Worker] = []
        self._queue: deque[Sequence[Task]] = deque()
        self._attempts: Counter[int] = Counter()
        self._failed_starts = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.end()
        self._workers = []

    def mean_estimate_s(self, sample: Sequence[Task]) -> float | None:
        """Mean estimated processor time of points (s); None if a process that estimates it ends or hangs."""
        worker = _Worker(self._setting, sample)
        found = worker.estimate_s(min(ESTIMATE_S, self._timeout_s))
        if found is None:
            worker.end()
        else:
            self._workers.append(worker)
        return found

    def rows(self, shards: Sequence[Sequence[Task]]) -> Iterator[list[Row]]:
        """Simulate the points of all shards.

        Args:
            shards: The shards, in the order in which they are started.

        Yields:
            Rows as they arrive, each point's once, in no particular order.

        Raises:
            SimsysError: If processes cannot work at all.
        """
        self._queue = deque(shards)
        while self._queue or any(worker.pending for worker in self._workers):
            self._give_work()
            busy = [worker for worker in self._workers if worker.pending]
            connections.wait([each.connection for each in busy], LOOK_S)
            for worker in busy:
                for rows in worker.answers():
                    self._failed_starts = 0
                    yield rows
                if late := worker.overdue(self._timeout_s):
                    worker.process.kill()
                    worker.process.join()
                if worker.pending and not worker.process.is_alive():
                    yield from self._replace(worker, late=late)

    def _give_work(self) -> None:
        """Give a shard to each worker without one, and start workers while there are shards."""
        for worker in self._workers:
            if self._queue and not worker.pending:
                worker.give(self._queue.popleft())
        while self._queue and len(self._workers) < self._jobs:
            worker = _Worker(self._setting)
            self._workers.append(worker)
            worker.give(self._queue.popleft())

    def _replace(self, worker: _Worker, *, late: bool) -> Iterator[list[Row]]:
        """Forget a process that has ended, give its row to the point that ended it, and queue its other points."""
        yield from worker.answers()
        self._workers.remove(worker)
        position, code = worker.now[0], worker.process.exitcode
        worker.end()
        pending = list(worker.pending)
        culprit = next((task for task in pending if task.position == position), None)
        if culprit is None:
            self._failed_starts += 1
            if self._failed_starts >= STARTS:
                raise SimsysError(f"worker processes end before their first point ({_ending(code)})")
            self._queue.appendleft(pending)
            return
        others = [task for task in pending if task is not culprit]
        self._queue.extendleft([others] if others else [])
        self._attempts[culprit.position] += 1
        if late:
            yield [Row(culprit.key, TIMED_OUT, f"ran for more than {self._timeout_s:g} s (--point-timeout)")]
        elif self._attempts[culprit.position] < ATTEMPTS:
            self._queue.appendleft([culprit])
        else:
            yield [Row(culprit.key, CRASHED, f"its process ended {ATTEMPTS} times: {_ending(code)}")]


def _ending(code: int | None) -> str:
    """How a process has ended, in words."""
    if code is not None and code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"{name}, as when memory runs out" if name == "SIGKILL" else name
    return f"exit code {code}"


@contextmanager
def _nothing_of_main() -> Iterator[None]:
    """While entered, started processes do not import the user's script, which might start the sweep again."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
