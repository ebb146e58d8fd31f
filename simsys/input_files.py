"""Input files: regular files of limited size that hold UTF-8 text, and the JSON in them.

Each kind of file has its own error messages; here OSError and ValueError contain the reason.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Iterable
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO

LARGEST_RESULT = 256 * 2**20
"""Bytes of a file of measurements; a detailed result of a million requests fits."""
_MOST_DIGITS = 308  # as many as a float has room for
_JSON_COMMENTS = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_JSON_BRACKETS = re.compile(r'[{}\[\]]|"(?:[^"\\]|\\.)*"')
_JSON_KEYS = re.compile(r'[{}]|"(?:[^"\\]|\\.)*"(\s*:)?')


class ContentError(ValueError):
    """The contents of a file cannot be read.

    Args:
        reason: The reason.
        line: Line, counted from 1; 0 if unknown.
        column: Column, counted from 1; 0 if unknown.
    """

    def __init__(self, reason: str, line: int = 0, column: int = 0) -> None:
        super().__init__(reason)
        self.line, self.column = line, column


def unreadable(path: Path, error: OSError | ValueError) -> str:
    """The message about a file that cannot be opened or read, with the line and column where they are known."""
    if isinstance(error, ContentError):
        return f"{path}:{error.line}:{error.column}: {error}" if error.line else f"{path}: {error}"
    if isinstance(error, OSError):
        return f"cannot read {path}: {error.strerror or error}"
    return f"cannot read {path}: {error}"


def path_from(folder: Path, text: str) -> Path:
    """A path as users write it: ``~`` is a home folder, a relative one starts from `folder`; never raises."""
    return folder / os.path.expanduser(text)


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
        ContentError: It is other text, or none, with the place of the first bad byte.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        raise ContentError("this is not UTF-8 text", line, column) from None


def not_text(path: Path) -> ContentError:
    """The error of a file that turned out to be no UTF-8 text while it was streamed."""
    with open_bytes(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                return ContentError("this is not UTF-8 text", number, error.start + 1)
    return ContentError("this is not UTF-8 text")


def read_text(path: Path, most_bytes: int = LARGEST_RESULT) -> str:
    """Read a whole file as text; raises as `read_bytes` and `text_of`."""
    return text_of(read_bytes(path, most_bytes))


def without_comments(text: str) -> str:
    """JSON without comments (``// …`` and ``/* … */``); what follows them stays where it was.

    Example:
        >>> without_comments('{"a": 1 /* b */}')
        '{"a": 1        }'
    """
    return _JSON_COMMENTS.sub(lambda found: found[1] or re.sub(r"[^\n]", " ", found[0]), text)


def parse_json(text: str) -> Any:
    """Parse a JSON document.

    Raises:
        ContentError: It is no JSON, is nested too deeply, or holds a key twice or an integer of over 308 digits.
    """

    def integer(digits: str) -> int:
        if len(digits) > _MOST_DIGITS:
            reason = f"a number of {len(digits)} digits: {digits[:20]}…"
            raise ContentError(reason, *_place(text, text.index(digits)))
        return int(digits)

    try:
        return json.loads(text, object_pairs_hook=_once, parse_int=integer)
    except RecursionError:
        raise ContentError("nested too deeply", *_place(text, _deepest(text))) from None
    except json.JSONDecodeError as error:
        raise ContentError(f"not valid JSON: {error.msg}", error.lineno, error.colno) from None
    except _TwiceError as error:
        raise ContentError(str(error), *_place(text, _second_key(text))) from None


class _TwiceError(ValueError):
    """A key stands twice in a mapping."""


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """A mapping without duplicate keys, of which one would be ignored silently."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _TwiceError(f"the key {key!r} stands twice")
        found[key] = value
    return found


def _second_key(text: str) -> int:
    """Where the first key stands that its mapping has already."""
    open_mappings: list[set[str]] = []
    for token in _JSON_KEYS.finditer(text):
        if token[0] == "{":
            open_mappings.append(set())
        elif token[0] == "}":
            open_mappings.pop()
        elif token[1]:
            key = json.loads(token[0].rstrip(": \t\r\n"))
            if key in open_mappings[-1]:
                return token.start()
            open_mappings[-1].add(key)
    return 0


def _deepest(text: str) -> int:
    """Where the mapping or list begins that the most others are around; the first one of these."""
    depth = most = place = 0
    for token in _JSON_BRACKETS.finditer(text):
        if token[0] in "{[":
            depth += 1
            if depth > most:
                most, place = depth, token.start()
        elif token[0] in "}]":
            depth -= 1
    return place


def _place(text: str, index: int) -> tuple[int, int]:
    """Line and column of a place in a text, both counted from 1."""
    return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)
