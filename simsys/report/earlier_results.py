"""Results of an earlier run of the same name but another configuration, which are kept in another folder."""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from simsys.errors import OutputError
from simsys.input_files import read_text

DIGITS = 8
"""Digits of the digest in the name of a folder."""


def place_of_earlier(folder: Path, name: str, config: str) -> Path | None:
    """Return the folder to which the results of another configuration are moved; None if there are none.

    The place depends on that configuration alone, so alternating between two of them makes no further folders.

    Args:
        folder: The folder of the results.
        name: The name of the run, with which its files begin.
        config: The content of the configuration file that the run writes.
    """
    try:
        earlier = read_text(folder / _config_file(name))
    except (OSError, ValueError):
        return None
    if earlier == config:
        return None
    return folder.with_name(f"{folder.name}~{sha256(earlier.encode()).hexdigest()[:DIGITS]}")


def keep_earlier(folder: Path, name: str, config: str) -> Path | None:
    """Move the results of another configuration away.

    Files of the user in the folder stay. The configuration moves last, so that an interrupted move is completed by
    the next run. Arguments as for `place_of_earlier`.

    Returns:
        The folder to which they were moved; None if there were none.

    Raises:
        OutputError: If that fails.
    """
    place = place_of_earlier(folder, name, config)
    if place is None:
        return None
    last = folder / _config_file(name)
    try:
        place.mkdir(exist_ok=True)
        files = [file for file in sorted(folder.iterdir()) if file.name.startswith(f"{name}_") and file.is_file()]
        for file in [*(each for each in files if each != last), last]:
            with suppress(FileNotFoundError):  # another run has moved it
                os.replace(file, place / file.name)
    except OSError as error:
        raise OutputError(f"cannot move the earlier results in {folder} to {place}: {error.strerror}") from error
    return place


def _config_file(name: str) -> str:
    return f"{name}_config.yaml"
