"""A function in a process of its own: its memory is its own, and it can be given up."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from typing import Any, ParamSpec, TypeVar

from simsys.errors import InfeasibleError, InternalError, SimsysError, UsageError
from simsys.user_modules import UserModules, current, looked_for, with_place
from simsys.workers import begin_work, starting_workers

P = ParamSpec("P")
T = TypeVar("T")


class TooSlowError(UsageError):
    """It was not over in time, and was given up."""


def isolated(function: Callable[P, T], limit_s: float | None = None, /, *args: P.args, **options: P.kwargs) -> T:
    """Call a function of a module in a fresh process that has everything imported already.

    Args:
        function: The function.
        limit_s: Wall time limit in seconds.
        args: Its picklable arguments.
        options: Its keyword arguments.

    Raises:
        TooSlowError: If it was given up.
        SimsysError: What the function raised, or that its process ended without a result.
    """
    context = _context()
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_call, args=(sender, current(), function, args, options), daemon=True)
    try:
        with starting_workers():
            process.start()
        sender.close()
        if not receiver.poll(limit_s):
            raise TooSlowError(f"given up after {limit_s:g} s")
        kind, value = receiver.recv()
    except EOFError:
        process.join()
        message = f"a simulation's process ended with code {process.exitcode}; there may not be enough memory"
        raise SimsysError(message) from None
    except KeyboardInterrupt:
        _end_server()
        raise
    finally:
        if process.pid is not None:
            process.kill()
            process.join()
        receiver.close()
    if kind is None:
        result: T = value
        return result
    raise kind(value)


def _context() -> Any:
    """Processes forked from one that has imported what they need; started anew where there is no such thing."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["simsys.level_study.measurement"])
    return context


def _end_server() -> None:
    """End the process that others are forked from; while it imports, it would not notice the end of this one."""
    pid = getattr(forkserver._forkserver, "_forkserver_pid", None)
    if pid is not None:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _call(sender: Connection, modules: UserModules, function: Callable[..., Any], args: Any, options: Any) -> None:
    begin_work()
    answer: tuple[type[SimsysError] | None, Any]
    try:
        with looked_for(modules):
            answer = None, function(*args, **options)
    except SimsysError as error:
        kinds = (UsageError, InfeasibleError)
        answer = next((kind for kind in kinds if isinstance(error, kind)), SimsysError), str(error)
    except Exception as error:  # such as of a user's module, which need not be one that can be pickled
        answer = InternalError, with_place(error)
    sender.send(answer)
    sender.close()
