"""Interrupts of the command line, by Ctrl-C or SIGTERM: exit code 130, whole files only, no traceback.

An interrupt ends the process immediately, as only temporary files need cleaning up. Inside `raised`, the first
interrupt raises KeyboardInterrupt instead, so finished work can be printed or written. It imports only modules that
the interpreter has loaded already, so it is active before any other import.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from pathlib import Path
    from types import FrameType, TracebackType
    from typing import Any, NoReturn
else:
    import _signal as signal  # signal without its enumerations, whose import is slow

INTERRUPTED = 130
"""The exit code."""
AGAIN_AFTER_S = 3.0
"""Time after which a lost KeyboardInterrupt is raised again: enough to end workers and remove files."""
REPEATS = hasattr(signal, "setitimer")
"""False on Windows, which has no such timer."""
_ERASE_LINE_AND_SHOW_CURSOR = b"\r\x1b[2K\x1b[?25h"


class _State:
    """Effect of the next interrupt.

    Attributes:
        raises: It raises KeyboardInterrupt.
        pending: An interrupt was raised and its block has not ended yet.
        temporary: Files to remove before the process ends.
    """

    raises = False
    pending = False
    temporary: set[Path] = set()  # noqa: RUF012  # one state for the process, as signals are


def install() -> None:
    """Handle SIGINT and SIGTERM of this process from now on; one that is ignored stays ignored."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupted)
    sys.unraisablehook = _unraisable


def end() -> None:
    """The work is done: ignore interrupts while the interpreter ends, which would let them kill the process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


class raised:  # noqa: N801  # reads as a statement: with interrupts.raised()
    """While entered, the first interrupt raises KeyboardInterrupt in it.

    It leaves as KeyboardInterrupt even if something in between caught it or made another error of it. If the block is
    still running some seconds later, the exception was lost, as in the import of a C extension, and is raised again.
    """

    def __enter__(self) -> None:
        _State.pending, _State.raises = False, True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _State.raises = False
        if _State.pending and REPEATS:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        if _State.pending and not isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt from error


def remove_at_end(path: Path) -> None:
    """Remove a temporary file if an interrupt ends the process; call it before the file is made."""
    _State.temporary.add(path)


def keep(path: Path) -> None:
    """Forget a temporary file, which is none any more."""
    _State.temporary.discard(path)


def _end_children() -> None:
    """End the processes that work for this one; they would notice its end only when they have begun."""
    processes = sys.modules.get("multiprocessing.process")
    for child in tuple(getattr(processes, "_children", ())):
        try:  # noqa: SIM105
            child.kill()
        except Exception:  # in a signal handler, anything may be half done
            pass


def leave() -> NoReturn:
    """End the process at once, as after an interrupt."""
    _end_children()
    for path in tuple(_State.temporary):
        try:  # noqa: SIM105  # nothing is imported here
            path.unlink(missing_ok=True)
        except OSError:
            pass
    try:  # noqa: SIM105
        os.write(2, (_ERASE_LINE_AND_SHOW_CURSOR if os.isatty(2) else b"") + b"interrupted\n")
    except OSError:
        pass
    os._exit(INTERRUPTED)


def _interrupted(number: int, frame: FrameType | None) -> None:
    if not _State.raises:
        leave()
    _State.raises, _State.pending = False, True
    _raise(number, frame)


def _raise(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, and again later unless the block has ended."""
    if REPEATS:
        signal.signal(signal.SIGALRM, _raise)
        signal.setitimer(signal.ITIMER_REAL, AGAIN_AFTER_S)
    raise KeyboardInterrupt


def _unraisable(raised: Any) -> None:
    """A KeyboardInterrupt in a destructor or callback, where it would be printed and forgotten, ends the process."""
    if issubclass(raised.exc_type, KeyboardInterrupt):
        leave()
    sys.__unraisablehook__(raised)
