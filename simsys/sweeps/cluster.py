"""Runs shards as tasks of a Dask cluster; this process alone gathers rows and writes them."""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Self

from simsys.errors import SimsysError, UsageError
from simsys.sweeps.evaluate import CRASHED, FAILED, Row
from simsys.sweeps.local import LocalWorkers
from simsys.sweeps.points import canonical
from simsys.sweeps.worker import Setting, Task
from simsys.version import __version__

CONNECT_S = 10.0
"""Longest time in which a scheduler has to answer."""
ABSENT_S = 60.0
"""Longest time without any worker."""
LOOK_S = 1.0
LOCAL = "local:"
SCHEMES = ("tcp://", "tls://", "ucx://", "ws://", "wss://")
"""Protocols of Dask between processes."""
_kept: dict[str, LocalWorkers] = {}
"""The processes of this Dask worker, by what their points have in common."""


class DaskWorkers:
    """A Dask cluster; a context manager that connects to it, or starts and ends it.

    Each Dask worker simulates in one process of its own, so that a point that crashes or hangs costs its row here too.
    Dask runs the shards of a worker that ends on other workers.

    Args:
        setting: What all points have in common.
        address: A scheduler's address, such as ``tcp://host:8786``, or ``local:8`` for eight workers on this machine.
        timeout_s: Longest time of a point.
        absent_s: Longest time without any worker.

    Raises:
        UsageError: If the address has another form, or Dask is not installed.
    """

    def __init__(
        self, setting: Setting, address: str, timeout_s: float = math.inf, absent_s: float = ABSENT_S
    ) -> None:
        check_address(address)
        self._setting, self._address, self._timeout_s, self._absent_s = setting, address, timeout_s, absent_s
        self._stack = ExitStack()
        self._ended: SimpleQueue[Any] = SimpleQueue()
        self.client: Any = None

    def __enter__(self) -> Self:
        import distributed

        client: Any = distributed.Client
        cluster: Any = distributed.LocalCluster
        place: Any = self._address
        if self._address.startswith(LOCAL):
            number = int(self._address.removeprefix(LOCAL))
            options = {"n_workers": number, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
            place = self._stack.enter_context(cluster(**options, silence_logs="ERROR"))
        try:
            self.client = self._stack.enter_context(client(place, timeout=CONNECT_S, set_as_default=False))
        except (OSError, TimeoutError, ValueError) as error:
            reason = str(error) or type(error).__name__
            raise UsageError(f"--cluster {self._address}: no Dask scheduler answers: {reason}") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def mean_estimate_s(self, sample: Sequence[Task]) -> float | None:
        """Mean estimated processor time of points (s), from a process of this machine; None if unknown."""
        with LocalWorkers(self._setting, 1, self._timeout_s) as workers:
            return workers.mean_estimate_s(sample)

    def rows(self, shards: Sequence[Sequence[Task]]) -> Iterator[list[Row]]:
        """Simulate the points of all shards.

        Args:
            shards: The shards, each of which is one task.

        Yields:
            Rows as they arrive, each point's once.

        Raises:
            SimsysError: If the cluster has no workers for too long, or is lost.
        """
        waiting = {self._submit(shard): shard for shard in shards}
        seen_s = time.monotonic()
        while waiting:
            done = self._done()
            for future in done:
                shard = waiting.pop(future)
                rows, rest = _outcome(future, shard)
                if rows:
                    yield rows
                waiting |= {self._submit(each): each for each in rest}
            present = bool(done) or bool(self._present())
            seen_s = time.monotonic() if present else seen_s
            if time.monotonic() - seen_s > self._absent_s:
                lost = f"--cluster {self._address}: no worker for {self._absent_s:g} s"
                raise SimsysError(f"{lost}; the same command continues the sweep once there are workers")

    def _submit(self, shard: Sequence[Task]) -> Any:
        """Start a task, whose future is put into the queue when it has ended."""
        args = __version__, self._setting, list(shard), self._timeout_s
        future = self.client.submit(run_shard, *args, pure=False)
        future.add_done_callback(self._ended.put)
        return future

    def _done(self) -> list[Any]:
        """The futures that have ended, after a short wait for at least one."""
        found: list[Any] = []
        try:
            found.append(self._ended.get(timeout=LOOK_S))
            while True:
                found.append(self._ended.get_nowait())
        except Empty:
            return found

    def _present(self) -> int:
        """The number of workers; none if the scheduler is lost."""
        try:
            return len(self.client.scheduler_info(n_workers=-1)["workers"])
        except OSError:
            return 0


def run_shard(version: str, setting: Setting, shard: Sequence[Task], timeout_s: float) -> list[Row]:
    """Simulate a shard in a process of this Dask worker.

    Args:
        version: The version of simsys that has divided the sweep.
        setting: What all points have in common.
        shard: The points.
        timeout_s: Longest time of a point.

    Raises:
        UsageError: If this worker has another version of simsys.
    """
    if version != __version__:
        raise UsageError(f"a Dask worker has simsys {__version__}, the sweep was started by {version}")
    key = canonical([setting.base, str(setting.folder), timeout_s])
    if key not in _kept:
        for workers in _kept.values():
            workers.__exit__(None, None, None)
        _kept.clear()
        _kept[key] = LocalWorkers(setting, 1, timeout_s)
    process: Any = multiprocessing.current_process()
    process._config["daemon"] = False  # Dask marks its workers so, and such processes must not start others
    try:
        return [row for rows in _kept[key].rows([shard]) for row in rows]
    except BaseException:
        _kept.pop(key).__exit__(None, None, None)
        raise


def _outcome(future: Any, shard: Sequence[Task]) -> tuple[list[Row], list[Sequence[Task]]]:
    """The rows of a task that has ended, and the shards that have to be run again.

    A shard that has ended several workers is run again point by point; a point that has ended several workers crashed.
    """
    from distributed import KilledWorker

    if future.cancelled():
        raise SimsysError("the Dask scheduler is lost; the same command continues the sweep once there is one")
    error = future.exception()
    if error is None:
        return list(future.result()), []
    if isinstance(error, UsageError):
        raise error
    if not isinstance(error, KilledWorker):
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return [Row(task.key, FAILED, reason) for task in shard], []
    if len(shard) > 1:
        return [], [[task] for task in shard]
    return [Row(shard[0].key, CRASHED, "several Dask workers ended while it ran")], []


def check_address(address: str) -> None:
    """Refuse an address of a cluster that has another form, and a cluster without Dask.

    Raises:
        UsageError: With the reason.
    """
    number = address.removeprefix(LOCAL)
    if address.startswith(LOCAL) and not (number.isdecimal() and 1 <= int(number) <= 1024):
        raise UsageError(f"--cluster {address}: write local: and a number of workers, such as local:8")
    if not address.startswith((LOCAL, *SCHEMES)):
        raise UsageError(f"--cluster {address}: write the address of a Dask scheduler, tcp://HOST:PORT, or local:N")
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise UsageError("--cluster needs Dask: pip install 'simsys[dask]'; --jobs N needs none") from None
