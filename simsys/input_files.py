"""Input files: regular files of limited size that hold UTF-8 text, and the JSON in them.

Each kind of file words its own errors; here OSError and ValueError say in their text what is wrong.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterable
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO

LARGEST_RESULT = 256 * 2**20
"""Bytes of a file of measurements; a detailed result of a million requests fits."""
_MOST_DIGITS = 308  # as many as a float has room for


def open_bytes(path: Path) -> BinaryIO:
    """Open a regular file; a pipe or a device, which may never answer or never end, is refused.

    Raises:
        OSError: It cannot be opened, or is not a regular file.
        ValueError: The path holds a NUL character.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    number = os.open(path, flags)
    try:
        mode = os.fstat(number).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "this is a pipe or a device; a regular file is needed", str(path))
        return os.fdopen(number, "rb")
    except BaseException:
        os.close(number)
        raise


def open_text(path: Path) -> TextIOWrapper:
    """Open a regular file to stream its text, without a byte order mark; raises as `open_bytes`."""
    return TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline="")


def read_bytes(path: Path, most_bytes: int) -> bytes:
    """Read a whole file.

    Raises:
        OSError: As `open_bytes`.
        ValueError: The file is larger than `most_bytes`.
    """
    with open_bytes(path) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise ValueError(f"the file is larger than {most_bytes // 2**20} MiB")
    return content


def text_of(content: bytes) -> str:
    """Decode UTF-8, without a byte order mark.

    Raises:
        ValueError: It is other text, or none; names the line of the first bad byte.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"this is not UTF-8 text (line {line})") from None


def read_text(path: Path, most_bytes: int = LARGEST_RESULT) -> str:
    """Read a whole file as text; raises as `read_bytes` and `text_of`."""
    return text_of(read_bytes(path, most_bytes))


def parse_json(text: str) -> Any:
    """Parse a JSON document.

    Raises:
        ValueError: It is no JSON, is nested too deeply, or holds a key twice or an integer of over 308 digits.
    """
    try:
        return json.loads(text, object_pairs_hook=_once, parse_int=_integer)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _integer(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(text)} digits: {text[:20]}…")
    return int(text)


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """A mapping, none of whose keys stands twice: of two values, one would be ignored in silence."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} stands twice")
        found[key] = value
    return found
