"""Files written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TextIO, TypeAlias

from simsys.errors import OutputError

Writer: TypeAlias = Callable[[TextIO], object]
"""Writes a file's content."""


def write_files(folder: Path, writers: Mapping[str, Writer]) -> list[Path]:
    """Write files into a folder, which is made if need be; existing files of these names are replaced.

    Every file is first written beside its place and brought to the disk, then all are renamed, so that at no time
    a half-written one can be seen. When something goes wrong, or the program is interrupted, what was not renamed
    is removed.

    Args:
        folder: Where to.
        writers: What writes each file's content, by file name.

    Returns:
        The files, in the order given.

    Raises:
        OutputError: Something could not be written; the message names it and says why.
    """
    place = folder
    temporary: dict[Path, Path] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, write in writers.items():
            place = folder / name
            temporary[place] = folder / f".{name}.{secrets.token_hex(4)}.tmp"
            with temporary[place].open("x", encoding="utf-8", newline="") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
        for place, written in temporary.items():
            os.replace(written, place)
    except OSError as error:
        raise OutputError(f"cannot write {place}: {_reason(error, folder)}") from error
    finally:
        for written in temporary.values():
            with suppress(OSError):
                written.unlink(missing_ok=True)
    return list(temporary)


def _reason(error: OSError, folder: Path) -> str:
    for part in (folder, *folder.parents):
        if part.exists() and not part.is_dir():
            return f"{part} is a file, a folder is needed"
    return error.strerror or str(error)
