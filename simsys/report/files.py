"""Atomic writing of files."""

from __future__ import annotations

import gzip
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import escape
from io import TextIOWrapper
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
_COMPRESSED = ".gz"
_EFFORT = 3  # traces are a sixth larger than with the most, in a third of the time


def write_files(folder: Path, writers: Mapping[str, Writer]) -> list[Path]:
    """Write files into a folder, which is created if missing; existing files of these names are replaced.

    Files whose names end with ``.gz`` are compressed, always to the same bytes.

    Every file is first written under a temporary name and synced to disk, then all are renamed, so that a half-written
    file is never visible. After an error or an interrupt, temporary files are removed. Files left by a killed program
    are removed by the next one that writes the same files.

    Args:
        folder: Target folder.
        writers: Functions that write the content, by file name.

    Returns:
        The files, in the order given.

    Raises:
        OutputError: If a file cannot be written; the message has its name and the reason.
    """
    temporary = {folder / name: folder / f".{name}.{secrets.token_hex(4)}.tmp" for name in writers}
    place = folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _leftovers_removed(folder, writers):
            for place, write in zip(temporary, writers.values(), strict=True):
                (_write_compressed if place.suffix == _COMPRESSED else _write)(temporary[place], write)
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
    """Write a temporary file and sync it to disk."""
    interrupts.remove_at_end(path)
    with path.open("x", encoding="utf-8", newline="") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())


def _write_compressed(path: Path, write: Writer) -> None:
    """As `_write`, compressed, with neither a time nor a name in the file."""
    interrupts.remove_at_end(path)
    with path.open("xb") as file:
        with gzip.GzipFile("", "wb", _EFFORT, file, mtime=0) as packed:
            text = TextIOWrapper(packed, encoding="utf-8", newline="")
            write(text)
            text.flush()
            text.detach()
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _leftovers_removed(folder: Path, names: Iterable[str]) -> Iterator[None]:
    """Remove temporary files of these names that a killed process left, unless another process writes here now.

    Writers hold a shared lock of the folder, removal needs an exclusive one, where locks are available.
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
