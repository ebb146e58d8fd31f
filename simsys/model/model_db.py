"""The model DB: ``model_characteristics_db.json`` files, found beside simsys or given by the user.

The entry of the file, not the code that once made it, is what is simulated; so an edited number counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from simsys.data import data_folders
from simsys.errors import UnknownNameError, UsageError
from simsys.model.fields import Fields
from simsys.model.model import Model
from simsys.model.model_entry import model_from_entry

KIND = "model_db"
FILENAME = "model_characteristics_db.json"


def load_model(name: str, paths: Sequence[str | Path] = ()) -> Model:
    """Return a model of the DB.

    Args:
        name: Its name or one of its aliases; case, spaces, dots and the signs ``-``, ``_`` and ``/`` do not matter.
        paths: Model DB files, or folders that hold one, to look in before ``$SIMSYS_PATH`` and the shipped DB.

    Raises:
        UnknownNameError: No DB has it.
        UsageError: A file or the entry is wrong; the message says where.
    """
    wanted = _key(name)
    entries = list(_entries(paths))
    for file, own_name, entry in entries:
        if wanted == _key(own_name):
            return model_from_entry(own_name, Fields(entry, own_name, str(file)))
    for file, own_name, entry in entries:
        if wanted in {_key(alias) for alias in _aliases(file, own_name, entry)}:
            return model_from_entry(own_name, Fields(entry, own_name, str(file)))
    raise UnknownNameError("model", name, {own_name for _, own_name, _ in entries})


def model_names(paths: Sequence[str | Path] = ()) -> list[str]:
    """Return the names in all model DBs, sorted, without aliases."""
    return sorted({name for _, name, _ in _entries(paths)})


def database_files(paths: Iterable[str | Path] = ()) -> list[Path]:
    """Return the model DB files there are, best first.

    Raises:
        UsageError: One of `paths` is neither a file nor a folder that holds a model DB.
    """
    given = [Path(path) for path in paths]
    for path in given:
        if not path.is_file() and not (path / FILENAME).is_file():
            raise UsageError(f"no model DB at {path}: expected a JSON file or a folder with {FILENAME}")
    candidates = [path if path.is_file() else path / FILENAME for path in data_folders(KIND, given)]
    return [path for path in candidates if path.is_file()]


def _entries(paths: Sequence[str | Path]) -> Iterator[tuple[Path, str, Any]]:
    for file in database_files(paths):
        for name, entry in Fields(_parsed(file, file.stat().st_mtime_ns), file=str(file)).values.items():
            if not name.startswith("$"):
                yield file, name, entry


@lru_cache(maxsize=8)
def _parsed(file: Path, changed_ns: int) -> object:
    """What a file says; read anew once it has changed."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read model DB {file}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{file}: not valid JSON: {error}") from error


def _aliases(file: Path, name: str, entry: object) -> list[str]:
    fields = Fields(entry, name, str(file))
    aliases = fields.values.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        fields.fail("aliases", "expected a list of strings")
    return aliases


def _key(name: str) -> str:
    return re.sub(r"[-_\s./]", "", name.casefold())
