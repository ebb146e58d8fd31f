"""Files written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import TextIO, TypeAlias

from simsys import interrupts
from simsys.errors import OutputError

try:
    import fcntl
except ImportError:  # not POSIX
    fcntl = None  # type: ignore[assignment]

Writer: TypeAlias = Callable[[TextIO], object]
"""Writes a file's content."""


def write_files(folder: Path, writers: Mapping[str, Writer]) -> list[Path]:
    """Write files into a folder, which is made if need be; existing files of these names are replaced.

    Every file is first written beside its place and brought to the disk, then all are renamed, so that at no time
    a half-written one can be seen. When something goes wrong, or the program is interrupted, what was not renamed
    is removed; what a killed program left is removed by the next one that writes the same files.

    Args:
        folder: Where to.
        writers: What writes each file's content, by file name.

    Returns:
        The files, in the order given.

    Raises:
        OutputError: Something could not be written; the message names it and says why.
    """
    temporary = {folder / name: folder / f".{name}.{secrets.token_hex(4)}.tmp" for name in writers}
    place = folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _leftovers_removed(folder, writers):
            for place, write in zip(temporary, writers.values(), strict=True):
                _write(temporary[place], write)
            for place, written in temporary.items():
                os.replace(written, place)
    except OSError as error:
        raise OutputError(f"cannot write {place}: {_reason(error, folder)}") from error
    finally:
        for written in temporary.values():
            with suppress(OSError):
                written.unlink(missing_ok=True)
            interrupts.keep(written)
    return list(temporary)


def _write(path: Path, write: Writer) -> None:
    """Write a temporary file and bring it to the disk."""
    interrupts.remove_at_end(path)
    with path.open("x", encoding="utf-8", newline="") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _leftovers_removed(folder: Path, names: Iterable[str]) -> Iterator[None]:
    """Remove temporary files of these names that a killed process left, unless another process writes here now.

    Who writes into a folder holds a shared lock of it, who removes an exclusive one, where there are locks.
    """
    if fcntl is None:
        yield
        return
    lock = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # another process writes, or the file system has no locks
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for name in names:
                for leftover in folder.glob(f".{escape(name)}.{'[0-9a-f]' * 8}.tmp"):
                    leftover.unlink()
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_SH)
        yield
    finally:
        os.close(lock)


def _reason(error: OSError, folder: Path) -> str:
    for part in (folder, *folder.parents):
        if os.path.exists(part) and not os.path.isdir(part):
            return f"{part} is a file, a folder is needed"
    return error.strerror or str(error)
