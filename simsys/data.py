"""Locations of the data folders: model DB, hardware profiles, framework modules and experiments.

Search order: the folders given by the caller, each folder of ``$SIMSYS_PATH``, and the parent of the installed
``simsys`` package. Nothing is imported to find them, so that a user's own folder called ``experiments`` cannot hide
the shipped one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from simsys.errors import UnknownNameError

ENVIRONMENT_VARIABLE = "SIMSYS_PATH"
_SHIPPED = Path(__file__).resolve().parents[1]


def shipped_folder(kind: str) -> Path:
    """The shipped folder of one kind of data, such as ``model_db``."""
    return _SHIPPED / kind


def data_folders(kind: str, user_paths: Iterable[str | Path] = ()) -> list[Path]:
    """Return the folders in which data of one kind may be, best first; some may not exist.

    Args:
        kind: Folder name below a data root, such as ``model_db`` or ``hardware_profiles``.
        user_paths: Folders that hold such data themselves (without `kind` appended).

    Returns:
        The user's paths, then ``<root>/kind`` for each root in ``$SIMSYS_PATH`` (separated like ``$PATH``), then
        the shipped folder; each once.
    """
    return list(_data_folders(kind, tuple(user_paths), os.environ.get(ENVIRONMENT_VARIABLE, "")))


@lru_cache(maxsize=256)
def _data_folders(kind: str, user_paths: tuple[str | Path, ...], further: str) -> tuple[Path, ...]:
    roots = [Path(root) for root in further.split(os.pathsep) if root]
    return tuple(dict.fromkeys([*map(Path, user_paths), *(root / kind for root in [*roots, _SHIPPED])]))


def find_data(kind: str, filename: str, user_paths: Iterable[str | Path] = ()) -> Path:
    """Return the first existing file of that name in the folders for `kind`.

    Raises:
        UnknownNameError: No folder has it; the message names the nearest file there is.
    """
    folders = data_folders(kind, user_paths)
    for folder in folders:
        if os.path.isfile(folder / filename):
            return folder / filename
    known = {path.name for folder in folders if os.path.isdir(folder) for path in folder.iterdir() if path.is_file()}
    raise UnknownNameError(f"{kind} file", filename, known)
