"""Processes that work for another one: interrupts are not for them, and they end when it ends, however that is."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from simsys.garbage import collect_rarely
from simsys.interrupts import INTERRUPTED

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor


@contextmanager
def starting_workers() -> Iterator[None]:
    """While entered, processes that are started do not get Ctrl-C, from their first moment on; this one gets it later.

    Only where signals can be blocked; elsewhere not before `begin_work`.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_workers(pool: ProcessPoolExecutor) -> None:
    """End the processes of a pool at once, whatever they do."""
    for process in tuple((pool._processes or {}).values()):
        process.kill()
    pool.shutdown(cancel_futures=True)


def begin_work() -> None:
    """Call this first in a process that works for another one."""
    collect_rarely()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="end with parent", daemon=True).start()


def _end_with_parent() -> None:
    """Wait for the process that this one works for, and end when it has ended."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(INTERRUPTED)
