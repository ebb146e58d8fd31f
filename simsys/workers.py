"""Processes that simulate, and those that work for another one: these ignore interrupts, and end when it ends."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from simsys.interrupts import INTERRUPTED

ALLOCATIONS = 5_000
"""New objects between two garbage collections of a process that only simulates. With 700, the default of Python 3.11,
they took more than a tenth of the CPU time of `simsys run` with many scenarios, and saved 20 of 137 MB."""


def collect_rarely() -> None:
    """Collect the garbage of this process less often, unless that is switched off or rarer already."""
    often = gc.get_threshold()[0]
    if 0 < often < ALLOCATIONS:
        gc.set_threshold(ALLOCATIONS)


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
