"""Files of traces, compressed or not, and what may be wrong with them."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from simsys.errors import TraceError, did_you_mean
from simsys.input_files import open_bytes

LARGEST_BYTES = 2**30
"""Uncompressed bytes of a file that is read whole."""
_GZIP = b"\x1f\x8b"
_HEADER = 1 << 12  # of a compressed file


@contextmanager
def unpacked(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, decompressed if it is compressed by gzip.

    Raises:
        TraceError: It cannot be opened or read, also later while it is read.
    """
    try:
        with open_bytes(path) as file:
            packed = file.read(len(_GZIP)) == _GZIP
            file.seek(0)
            yield cast(IO[bytes], gzip.GzipFile(fileobj=file)) if packed else file
    except FileNotFoundError:
        near = [each.name for each in path.parent.glob("*.json*")]
        raise TraceError(f"{path}: no such file{did_you_mean(path.name, near)}") from None
    except IsADirectoryError:
        raise TraceError(f"{path}: is a folder; name a file in it") from None
    except EOFError:
        raise TraceError(f"{path}: the compressed file is cut off") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(f"{path}: the compressed file is damaged: {error}") from None
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: this is not UTF-8 text, at byte {error.start}") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        raise TraceError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def read_whole(path: Path, most: int = LARGEST_BYTES) -> str:
    """The text of a file.

    Raises:
        TraceError: As `unpacked`, or it is larger than `most` bytes.
    """
    with unpacked(path) as file:
        content = file.read(most + 1)
        if len(content) > most:
            raise TraceError(f"{path}: larger than {most // 2**20} MiB when unpacked; record fewer steps")
        return content.decode("utf-8-sig")


def beginning(path: Path, nbytes: int) -> str:
    """The text of the first bytes of a file, also of one that is cut off later; empty if it cannot be read."""
    try:
        with open_bytes(path) as file:
            content = file.read(nbytes + _HEADER)
        if content.startswith(_GZIP):
            content = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(content, nbytes)
    except (OSError, ValueError, zlib.error):
        return ""
    return content[:nbytes].decode("utf-8-sig", errors="ignore")
